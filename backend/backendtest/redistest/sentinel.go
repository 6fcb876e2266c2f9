package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// SentinelSet is a primary with a replica, watched by three sentinels. They call a server down after three seconds, and
// talk to each other more often than usual: a failover that is asked for takes about two.
type SentinelSet struct {
	Master    string    // the name that sentinels are asked for
	Nodes     []*Server // two; the first is the primary in the beginning
	Sentinels []*Server // three
}

// Sentinel starts a primary, a replica and three sentinels.
func Sentinel(t testing.TB, options ...Option) *SentinelSet {
	t.Helper()
	return Start(t, "sentinel", options...).Sentinel
}

func startSentinel(dir string, s settings) (*SentinelSet, error) {
	set := &SentinelSet{Master: "weir"}
	if err := set.start(dir, s); err != nil {
		err = fmt.Errorf("%w\n%s", err, set.all().Log())
		set.all().Close()
		return nil, err
	}
	return set, nil
}

func (set *SentinelSet) start(dir string, s settings) (err error) {
	if set.Nodes, err = startServers(dir, "redis", 2, s); err != nil {
		return err
	}
	host, port, _ := strings.Cut(set.Nodes[0].Addr, ":")
	ctx := context.Background()
	replica := set.Nodes[1]
	if err := replica.client.ReplicaOf(ctx, host, port).Err(); err != nil {
		return fmt.Errorf("making a replica: %w", err)
	}
	if err := replica.client.ConfigRewrite(ctx).Err(); err != nil { // so that it stays one when it is restarted
		return fmt.Errorf("making a replica: %w", err)
	}
	if err := await("the replica has its copy", replica.linked); err != nil {
		return err
	}
	if set.Sentinels, err = startServers(dir, "sentinel", 3, s.asSentinel(set.Master, host, port)); err != nil {
		return err
	}
	for _, sentinel := range set.Sentinels {
		// Before version 7 there is no such command, and everything takes its time.
		// A sentinel that stood still for two seconds would trust nothing that it knows for the next thirty: not here.
		_ = sentinel.client.Do(ctx, "sentinel", "debug", "info-period", 500, "ping-period", 400, "publish-period", 250,
			"tilt-trigger", 3_600_000).Err()
	}
	_, err = set.awaitPrimary(func(primary *Server) bool { return primary == set.Nodes[0] })
	return err
}

// asSentinel gives the settings of sentinels for a primary that has these.
func (s settings) asSentinel(master, host, port string) settings {
	lines := []string{
		fmt.Sprintf("sentinel monitor %s %s %s 2", master, host, port),
		fmt.Sprintf("sentinel down-after-milliseconds %s 3000", master),
		fmt.Sprintf("sentinel failover-timeout %s 3000", master),
	}
	user, password := s.login()
	if user != "" {
		lines = append(lines, fmt.Sprintf("sentinel auth-user %s %s", master, user))
	}
	if password != "" {
		lines = append(lines, fmt.Sprintf("sentinel auth-pass %s %s", master, quote(password)))
	}
	return settings{
		sentinel: true, lines: lines, sentinelPassword: s.sentinelPassword, tls: s.tls, certificates: s.certificates,
		release: s.release,
	}
}

// linked wants a replica to have its primary's data.
func (s *Server) linked(ctx context.Context) error {
	info, err := s.Info(ctx, "replication")
	if err == nil && info["master_link_status"] != "up" {
		err = fmt.Errorf("%s has the role %s and its link to a primary is %q, want it up",
			s.name, info["role"], info["master_link_status"])
	}
	return err
}

// Addrs returns the addresses of the sentinels.
func (set *SentinelSet) Addrs() []string { return addrs(set.Sentinels) }

// Await waits until all sentinels that are neither killed nor frozen agree on a primary, which it gives, and the other
// server follows that, unless it was killed or frozen. One that was killed and restarted comes back as a primary,
// empty, until the sentinels find it: a failover before that may choose it.
func (set *SentinelSet) Await(t testing.TB) *Server {
	t.Helper()
	primary := set.AwaitFailover(t, nil)
	mustAwait(t, "the replica follows the primary", func(ctx context.Context) error { return set.followed(ctx, primary) })
	return primary
}

// AwaitFailover waits until a primary that was killed or frozen has a successor, and gives it.
func (set *SentinelSet) AwaitFailover(t testing.TB, from *Server) *Server {
	t.Helper()
	primary, err := set.awaitPrimary(func(primary *Server) bool { return primary != from })
	if err != nil {
		t.Fatal(err)
	}
	return primary
}

// Failover lets the sentinels make the replica the primary, although the primary is well. It returns the new primary
// once all sentinels name it and the old one, which takes writes for about a second longer, has become its replica.
// They may have to be asked again: they give up when they have not heard of the replica lately, and one that has not
// heard of the new primary for a second makes it a replica again.
func (set *SentinelSet) Failover(t testing.TB) (next *Server) {
	t.Helper()
	old := set.Await(t)
	mustAwait(t, "the sentinels replace the primary", func(ctx context.Context) (err error) {
		if next, err = set.named(ctx); err != nil {
			return err
		}
		if next != old {
			return set.followed(ctx, next)
		}
		sentinel := servers(set.Sentinels).awake()[0]
		if err := sentinel.client.Do(ctx, "sentinel", "failover", set.Master).Err(); err != nil {
			return err
		}
		return errors.New("they have just been asked to")
	})
	return next
}

// followed wants the other server to have the primary's data, unless it was killed or frozen.
func (set *SentinelSet) followed(ctx context.Context, primary *Server) error {
	for _, node := range servers(set.Nodes).awake() {
		if node != primary {
			return node.linked(ctx)
		}
	}
	return nil
}

// awaitPrimary waits until all sentinels agree on a primary that fits.
func (set *SentinelSet) awaitPrimary(fits func(*Server) bool) (primary *Server, err error) {
	err = await("the sentinels agree on a primary", func(ctx context.Context) (err error) {
		if primary, err = set.named(ctx); err == nil && !fits(primary) {
			err = fmt.Errorf("they name %s", primary.name)
		}
		return err
	})
	return primary, err
}

// named returns the primary that all sentinels name which can answer, if they know each other and it agrees.
func (set *SentinelSet) named(ctx context.Context) (*Server, error) {
	names := make(map[string]bool)
	for _, sentinel := range servers(set.Sentinels).awake() {
		addr, err := set.ask(ctx, sentinel)
		if err != nil {
			return nil, err
		}
		names[addr] = true
	}
	at := slices.IndexFunc(set.Nodes, func(s *Server) bool { return names[s.Addr] })
	if len(names) != 1 || at < 0 {
		return nil, fmt.Errorf("they name %v", names)
	}
	primary := set.Nodes[at]
	info, err := primary.Info(ctx, "replication")
	if err == nil && info["role"] != "master" {
		err = fmt.Errorf("they name %s, which says that it is a %s", primary.name, info["role"])
	}
	return primary, err
}

// ask gives the primary's address that a sentinel names, if it knows enough to replace it.
func (set *SentinelSet) ask(ctx context.Context, sentinel *Server) (addr string, err error) {
	master := redis.NewMapStringStringCmd(ctx, "sentinel", "master", set.Master)
	_ = sentinel.client.Process(ctx, master) // the command has the error too
	is, err := master.Result()
	if err == nil && (is["flags"] != "master" || is["num-other-sentinels"] != "2" || is["num-slaves"] != "1") {
		err = fmt.Errorf("%s sees a primary with flags %s, %s other sentinels and %s replicas, want master, 2 and 1",
			sentinel.name, is["flags"], is["num-other-sentinels"], is["num-slaves"])
	}
	return net.JoinHostPort(is["ip"], is["port"]), err
}

func (set *SentinelSet) all() servers { return slices.Concat(set.Nodes, set.Sentinels) }
