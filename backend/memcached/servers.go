package memcached

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"
)

// firstLook and longestLook bound the pauses between lookups of a record that names no servers.
const firstLook, longestLook = time.Second, 30 * time.Second

var errNoServers = errors.New("its SRV record names no server yet")

// serverList is the servers, in the order in which envoyproxy/ratelimit's client has them. It does not change.
type serverList []*server

// byModulo returns the server of a key of envoyproxy/ratelimit: CRC-32 modulo the number of servers, as its client has
// it.
func (l serverList) byModulo(name []byte) *server {
	if len(l) == 1 {
		return l[0]
	}
	return l[crc32.ChecksumIEEE(name)%uint32(len(l))]
}

// byRendezvous returns the server of a key of weir, the one with the highest score for it (rendezvous hashing): a
// server that is added takes its keys evenly from all others, and no other key moves.
func (l serverList) byRendezvous(hash uint64) *server {
	return slices.MaxFunc(l, func(a, b *server) int { return cmp.Compare(mix(hash^a.id), mix(hash^b.id)) })
}

// mix spreads the bits of a number (the last step of MurmurHash3).
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

func idOf[T string | []byte](name T) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it takes every write
	return h.Sum64()
}

// CheckServer returns what is wrong with how a server is named: host:port, or the path of a socket.
func CheckServer(name string) error {
	if strings.Contains(name, "/") {
		return nil
	}
	host, port, err := net.SplitHostPort(name)
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("%q is no host:port, nor the path of a socket", name)
	}
	return nil
}

var recordName = regexp.MustCompile(`^_(.+?)\._(.+?)\.(.+)$`)

// CheckRecord returns what is wrong with the name of an SRV record.
func CheckRecord(name string) error {
	if !recordName.MatchString(name) {
		return fmt.Errorf("%q is no name of an SRV record, such as _memcache._tcp.example.com", name)
	}
	return nil
}

// lookup asks for the servers of a record, sorted as envoyproxy/ratelimit does, so that all have the same order.
func lookup(ctx context.Context, record string) ([]string, error) {
	parts := recordName.FindStringSubmatch(record)
	_, found, err := net.DefaultResolver.LookupSRV(ctx, parts[1], parts[2], parts[3])
	if err == nil && len(found) == 0 {
		err = errNoServers
	}
	names := make([]string, len(found))
	for i, one := range found {
		names[i] = fmt.Sprintf("%s:%d", one.Target, one.Port)
	}
	slices.Sort(names)
	for i := range names {
		host, port, _ := strings.Cut(names[i], ":")
		names[i] = strings.TrimSuffix(host, ".") + ":" + port
	}
	return names, err
}

// follow looks the record up again and again, until ctx ends. While it names no server, the last ones stay in use.
func (s *Store) follow(ctx context.Context) {
	for pause := firstLook; ; {
		names, err := s.config.lookup(ctx, s.config.SRV)
		wait := s.config.Refresh
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.config.Log.Warn("memcached servers cannot be looked up: the last ones stay in use, and it is tried again",
				"record", s.config.SRV, "error", err, "again_in", pause.String())
			wait, pause = pause, min(2*pause, longestLook)
		default:
			s.use(names)
			if pause = firstLook; wait <= 0 {
				return
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// use makes these the servers. Those that stay keep their connections; keys that move to another leave their counts.
func (s *Store) use(names []string) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.closed.Load() { // Close would not find a server that is opened now
		return
	}
	before := *s.servers.Load()
	byName := make(map[string]*server)
	for _, v := range before {
		byName[v.name] = v
	}
	now := make(serverList, len(names))
	for i, name := range names {
		if byName[name] == nil {
			byName[name] = s.open(name)
		}
		now[i] = byName[name]
	}
	if slices.Equal(now, before) {
		return
	}
	if len(before) > 0 {
		s.config.Log.Warn("memcached has other servers now: counts of the keys that move begin anew",
			"servers", strings.Join(names, ", "))
		for _, v := range now {
			v.noteLoss(1, time.Now())
		}
	}
	s.servers.Store(&now)
	for _, v := range before {
		if !slices.Contains(now, v) {
			v.close(errRemoved)
		}
	}
}

// dial connects to a server.
func (v *server) dial(ctx context.Context, timeout time.Duration) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	network := "tcp"
	if strings.Contains(v.name, "/") {
		network = "unix"
	}
	dial := new(net.Dialer).DialContext
	if v.store.config.TLS != nil {
		dial = (&tls.Dialer{Config: v.store.config.TLS()}).DialContext
	}
	c, err := dial(ctx, network, v.name)
	if err != nil {
		return nil, err
	}
	return newConn(c), nil
}

// log returns the logger for lines about the server.
func (v *server) log() *slog.Logger { return v.store.config.Log.With("server", v.name) }
