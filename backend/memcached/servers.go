package memcached

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/ratelimit"
)

// firstLookupPause and longestLookupPause bound the pauses between lookups of a record that names no servers.
const firstLookupPause, longestLookupPause = time.Second, 30 * time.Second

var errNoServers = errors.New("its SRV record names no server yet")

// serverList is the servers, in the order in which envoyproxy/ratelimit's client has them. It does not change.
type serverList []*server

// place is where a key is counted.
type place struct {
	server *server
	name   []byte // of the key there
	hash   uint64 // chooses one of the server's queues
}

const (
	// ownPrefix begins the names of weir's own keys, which are always legal in memcached.
	ownPrefix = "weir:"
	// maxName is how long a name may be in memcached, in bytes.
	maxName = 250
	// hashSize is how much of SHA-256, in bytes, names a key of weir's: no two keys are known to have the same.
	hashSize = 18
)

// placeOwn places a key of weir's. It appends the name to text.
func (l serverList) placeOwn(text, key []byte, suffix string) ([]byte, place) {
	sum, from := sha256.Sum256(key), len(text)
	text = base64.RawURLEncoding.AppendEncode(append(text, ownPrefix...), sum[:hashSize])
	text = append(text, suffix...)
	hash := binary.LittleEndian.Uint64(sum[:])
	return text, place{l.byRendezvous(hash), text[from:len(text):len(text)], hash >> 32}
}

// placeRatelimit places a key of envoyproxy/ratelimit in a window. It appends the name to text. A name that memcached
// refuses, for which that program limits nothing, becomes one of weir's own.
func (l serverList) placeRatelimit(text, stem []byte, w ratelimit.Window) ([]byte, place) {
	from := len(text)
	text = w.AppendKey(text, stem)
	name := text[from:len(text):len(text)]
	if legal(name) {
		return text, place{l.byModulo(name), name, idOf(name)}
	}
	return l.placeOwn(text, name, "_n")
}

// legal reports whether memcached, and envoyproxy/ratelimit's client, take a name.
func legal(name []byte) bool {
	return len(name) <= maxName && !bytes.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// byModulo returns the server of a key of envoyproxy/ratelimit: CRC-32 modulo the number of servers, as its client has
// it.
func (l serverList) byModulo(name []byte) *server {
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

// lookup asks for the servers of a record, sorted as envoyproxy/ratelimit does, so that all have the same order.
func lookup(ctx context.Context, record string) ([]string, error) {
	_, found, err := net.DefaultResolver.LookupSRV(ctx, "", "", record)
	if err == nil && len(found) == 0 {
		err = errNoServers
	}
	names := make([]string, len(found))
	for i, one := range found {
		names[i] = fmt.Sprintf("%s:%d", one.Target, one.Port)
	}
	slices.Sort(names)
	for i := range names {
		names[i] = strings.Replace(names[i], ".:", ":", 1)
	}
	return names, err
}

// follow looks the record up again and again, until ctx ends. While it names no server, the last ones stay in use.
func (s *Store) follow(ctx context.Context) {
	for pause := firstLookupPause; ; {
		names, err := s.config.lookup(ctx, s.config.SRV)
		wait := s.config.Refresh
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.config.Log.Warn("memcached server lookup failed; keeping the last servers",
				"record", s.config.SRV, "error", err, "again_in", pause.String())
			wait, pause = pause, min(2*pause, longestLookupPause)
		default:
			s.use(names)
			if pause = firstLookupPause; wait <= 0 {
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

// use sets the servers, for one caller at a time. Remaining servers keep their connections; keys that move lose their counts.
func (s *Store) use(names []string) {
	before := *s.servers.Load()
	byName := make(map[string]*server)
	for _, srv := range before {
		byName[srv.Name] = srv
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
		s.config.Log.Warn("memcached servers changed; keys that moved start from zero",
			"servers", strings.Join(names, ", "))
	}
	s.servers.Store(&now)
	defer s.engine.Broadcast()
	for _, srv := range before {
		if !slices.Contains(now, srv) {
			srv.Close(srv.Unavailable(backend.Down, errRemoved))
		}
	}
}
