package settings

import (
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/descriptors"
)

// Types of other packages that envconfig reads by their names.
type (
	algorithm descriptors.Algorithm
	redisType redis.Type
	nodeLoss  redis.NodeLoss
)

// Decode reads the name of an algorithm.
func (a *algorithm) Decode(value string) error {
	parsed, err := descriptors.ParseAlgorithm(value)
	*a = algorithm(parsed)
	return err
}

// Decode reads the name of a type.
func (t *redisType) Decode(value string) error {
	parsed, err := redis.ParseType(value)
	*t = redisType(parsed)
	return err
}

// Decode reads remap or pin.
func (n *nodeLoss) Decode(value string) error {
	parsed, err := redis.ParseNodeLoss(value)
	*n = nodeLoss(parsed)
	return err
}
