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

// firstLookupPause and longestLookupPause bound the pauses between failed lookups of the SRV record.
const firstLookupPause, longestLookupPause = time.Second, 30 * time.Second

var errNoServers = errors.New("its SRV record names no server yet")

// serverList is the servers, in the order of envoyproxy/ratelimit's client. It is immutable.
type serverList []*server

// location is where a key is counted.
type location struct {
	server *server
	name   []byte // the key's name there
	hash   uint64 // chooses one of the server's queues
}

const (
	// prefix begins the names of weir's keys, which are always legal in memcached.
	prefix = "weir:"
	// maxName is the longest name that memcached allows, in bytes.
	maxName = 250
	// hashSize is the number of bytes of SHA-256 in the name of a weir key. Collisions are not to be expected.
	hashSize = 18
)

// locateWeir returns the location of a weir key. It appends the name to text.
func (l serverList) locateWeir(text, key []byte, suffix string) ([]byte, location) {
	sum, from := sha256.Sum256(key), len(text)
	text = base64.RawURLEncoding.AppendEncode(append(text, prefix...), sum[:hashSize])
	text = append(text, suffix...)
	hash := binary.LittleEndian.Uint64(sum[:])
	return text, location{l.byRendezvous(hash), text[from:len(text):len(text)], hash >> 32}
}

// locateRatelimit returns the location of a key of envoyproxy/ratelimit in a window. It appends the name to text. A
// name that memcached refuses, for which that program limits nothing, becomes that of a weir key.
func (l serverList) locateRatelimit(text, stem []byte, w ratelimit.Window) ([]byte, location) {
	from := len(text)
	text = w.AppendKey(text, stem)
	name := text[from:len(text):len(text)]
	if legal(name) {
		return text, location{l.byModulo(name), name, idOf(name)}
	}
	return l.locateWeir(text, name, "_n")
}

// legal reports whether memcached and envoyproxy/ratelimit's client accept a name.
func legal(name []byte) bool {
	return len(name) <= maxName && !bytes.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// byModulo returns the server of a key of envoyproxy/ratelimit, as its client chooses it: CRC-32 modulo the number of
// servers.
func (l serverList) byModulo(name []byte) *server {
	return l[crc32.ChecksumIEEE(name)%uint32(len(l))]
}

// byRendezvous returns the server of a weir key by rendezvous hashing: the one with the highest score for the key. A
// new server gets its keys evenly from all others, and no other key moves.
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
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// lookup looks up the servers of an SRV record, in the order of envoyproxy/ratelimit, so that all processes have the
// same order.
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

// followSRV looks up the SRV record every Refresh until ctx ends, and sets the servers. After a failed lookup the last
// servers stay in use.
func (s *Store) followSRV(ctx context.Context) {
	for pause := firstLookupPause; ; {
		names, err := s.config.lookup(ctx, s.config.SRV)
		wait := s.config.Refresh
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.config.Log.Warn("memcached server lookup failed", "record", s.config.SRV, "error", err, "again_in", pause.String(),
				"effect", "the last servers stay in use")
			wait, pause = pause, min(2*pause, longestLookupPause)
		default:
			s.setServers(names)
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

// setServers sets the servers. Servers that stay keep their connections; keys that move lose their counts. It is not
// for concurrent use.
func (s *Store) setServers(names []string) {
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
		s.config.Log.Warn("memcached servers changed", "servers", strings.Join(names, ", "),
			"effect", "keys that moved start from zero")
	}
	s.servers.Store(&now)
	defer s.engine.Broadcast()
	for _, srv := range before {
		if !slices.Contains(now, srv) {
			srv.Close(srv.Unavailable(backend.Down, errRemoved))
		}
	}
}
