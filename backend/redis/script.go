package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// Script is a Lua script. It is immutable.
type Script struct{ source, sha string }

// NewScript makes a script of its source.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{source: source, sha: hex.EncodeToString(sum[:])}
}

// SHA returns the name that the script has in servers, for EVALSHA.
func (s *Script) SHA() string { return s.sha }

// Load gives a server the script. Its error is the server's.
func (s *Script) Load(ctx context.Context, client *goredis.Client) error {
	return client.ScriptLoad(ctx, s.source).Err()
}

// load gives a server the script. An error is one that sending again would not mend.
func (s *Script) load(ctx context.Context, client *goredis.Client) error {
	err := s.Load(ctx, client)
	if err == nil || Judge(err, true).kind != failed {
		return nil
	}
	return fmt.Errorf("loading the script: %w", err)
}

var called = regexp.MustCompile(`call\('([A-Z]+)'`)

// RulesOf returns the ACL rules for the commands that scripts call: a user needs these, too.
func RulesOf(source string) (rules []string) {
	for _, found := range called.FindAllStringSubmatch(source, -1) {
		if rule := "+" + strings.ToLower(found[1]); !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
	}
	return rules
}
