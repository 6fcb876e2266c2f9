package topology

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"syscall"

	goredis "github.com/redis/go-redis/v9"
)

var takesNoWrites = regexp.MustCompile("(^|[ -])(OOM|NOREPLICAS|MISCONF) ")

// TakesNoWrites reports whether an error says that the server is full, lacks replicas or cannot save.
func TakesNoWrites(err error) bool { return takesNoWrites.MatchString(err.Error()) }

// forbidden matches the errors of a script whose user lacks a right.
var forbidden = regexp.MustCompile("can't run this command|can't access at least one of the keys")

// Forbidden reports whether an error says that weir's user lacks a right.
func Forbidden(err error) bool {
	return goredis.IsPermissionError(err) || forbidden.MatchString(err.Error())
}

// IsReply reports whether an error is a server's reply.
func IsReply(err error) bool {
	var reply goredis.Error
	return errors.As(err, &reply)
}

// lockedSentinels matches go-redis's error for sentinels that refuse the credentials.
var lockedSentinels = regexp.MustCompile("all sentinels .*(NOAUTH|WRONGPASS)")

// Diagnose adds the server's name, the command, and the remedy, if there is one, to a server's error. It returns nil
// for nil.
func (s *Servers) Diagnose(from Server, command string, err error) error {
	var hint string
	_, misplaced := goredis.IsMovedError(err)
	switch {
	case err == nil:
		return nil
	case NoPrimary(err):
		hint = "; they do not know a primary of that name: correct the part of the URL before the first comma"
	case Forbidden(err):
		hint = "; grant all that weir needs: " + s.aclLine(from)
	case TakesNoWrites(err):
		hint = "; it takes no writes: make room in it, or mend what its own log names"
	case lockedSentinels.MatchString(err.Error()):
		hint = "; the sentinels want credentials of their own: set REDIS_SENTINEL_AUTH"
	case goredis.IsAuthError(err):
		hint = "; the credentials are missing or wrong"
	case strings.EqualFold(command, "ping") && isClosed(err):
		hint = "; if it takes TLS, write rediss://"
	case misplaced && s.cluster == nil && !errors.Is(err, errMisrouted):
		hint = "; it is part of a cluster: " + setCluster
	case goredis.IsReadOnlyError(err):
		hint = "; it is a replica: name the primary, or use sentinels"
	}
	return fmt.Errorf("%s: %s: %w%s", from.Name, strings.ToUpper(command), err, hint)
}

// isClosed reports whether the server closed the connection. A server with TLS closes plaintext connections.
func isClosed(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) }

// DiagnoseOf is Diagnose for the server behind a client.
func (s *Servers) DiagnoseOf(client *goredis.Client, command string, err error) error {
	return s.Diagnose(s.describe(client), command, err)
}

// NoPrimary reports whether an error says that the sentinels do not know a primary of that name. The error is
// goredis.Nil, which scripts and PING never return.
func NoPrimary(err error) bool { return errors.Is(err, goredis.Nil) }

// aclLine returns the command for redis-cli that grants the server's user the rights that weir needs, and no others.
func (s *Servers) aclLine(from Server) string {
	user := "<user>"
	if from.login != nil {
		if name, _, err := from.login.credentials(context.Background()); err == nil && name != "" {
			user = name
		}
	}
	line := "ACL SETUSER " + user + " " + s.rights
	if s.cluster != nil {
		line += " +cluster|slots +asking"
	}
	return line
}

// describe describes the server behind a client.
func (s *Servers) describe(client *goredis.Client) Server {
	switch t := s.topology.(type) {
	case singleClient:
		return t.Server
	case *cluster:
		return t.describe(client.Options().Addr, client)
	case *ring:
		if n := t.find(func(n *node) bool { return n.client == client }); n != nil {
			return t.describe(n)
		}
	}
	return Server{Name: client.Options().Addr}
}

// All lists every server that should answer: the primaries of a cluster, which it asks for them; the primary of
// sentinels.
func (s *Servers) All(ctx context.Context) ([]Server, error) {
	list, err := s.topology.Servers(ctx)
	if s.cluster != nil && err != nil {
		return nil, s.Diagnose(s.cluster.describe("a node of the cluster", nil), "CLUSTER SLOTS", err)
	}
	return list, err
}
