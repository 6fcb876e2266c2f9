package script

import "github.com/redis/go-redis/v9"

var sha = redis.NewScript(Source()).Hash()
