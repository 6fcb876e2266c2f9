package redishistory

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/backend/history"
)

// prefix begins every key of the history.
const prefix = "weir:h"

// partitionKey returns the prefix of a partition's keys, which share its hash tag, so that one script can use them all.
func partitionKey(p history.Partition) string { return prefix + "{" + strconv.Itoa(int(p)) + "}:" }

func formatKey(p history.Partition) string  { return partitionKey(p) + "format" }
func probeKey(p history.Partition) string   { return partitionKey(p) + "probe" }
func writersKey(p history.Partition) string { return partitionKey(p) + "writers" }
func agesKey(p history.Partition) string    { return partitionKey(p) + "ages" }
func dueKey(p history.Partition) string     { return partitionKey(p) + "due" }

// seriesName returns the name of a series in the due set: its parts, each after its length, so that no two series have
// the same name.
func seriesName(id history.ID) string {
	var b strings.Builder
	for _, part := range [...]string{id.Domain, id.Path, id.Value} {
		fmt.Fprintf(&b, "%d:%s", len(part), part)
	}
	b.WriteByte('0' + byte(id.Outcome))
	return b.String()
}

// seriesKey returns the key of a series, which the keys of its chunks begin with. It has 96 bits of SHA-256 of the
// name, which is short and free of collisions, even deliberate ones.
func seriesKey(p history.Partition, name string) string {
	sum := sha256.Sum256([]byte(name))
	return partitionKey(p) + base64.RawURLEncoding.EncodeToString(sum[:12])
}

// parseName parses a result of seriesName in a partition's due set.
func parseName(p history.Partition, name string) (id history.ID, err error) {
	damaged := fmt.Errorf("%w: %s: %q is not the name of a series", ErrDamaged, dueKey(p), name)
	rest := name
	for _, part := range [...]*string{&id.Domain, &id.Path, &id.Value} {
		length, text, _ := strings.Cut(rest, ":")
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > len(text) {
			return id, damaged
		}
		*part, rest = text[:n], text[n:]
	}
	if len(rest) != 1 || rest[0] < '0' || int(rest[0]-'0') >= history.Outcomes {
		return id, damaged
	}
	id.Outcome = history.Outcome(rest[0] - '0')
	return id, nil
}

// tierLetters has for each tier the first letter of the names of its chunks.
const tierLetters = "mfhd"

// chunkName returns the name of a chunk in its series: m489234 has the minutes of the hour 489234 since 1970.
func chunkName(c history.Chunk) string {
	return tierLetters[c.Tier:c.Tier+1] + strconv.FormatInt(c.Number, 10)
}

// parseChunk parses a result of chunkName.
func parseChunk(name string) (c history.Chunk, ok bool) {
	if len(name) < 2 {
		return c, false
	}
	t := strings.IndexByte(tierLetters, name[0])
	n, err := strconv.ParseInt(name[1:], 10, 64)
	return history.Chunk{Tier: history.Tier(max(t, 0)), Number: n}, t >= 0 && err == nil
}

func chunkKey(series string, c history.Chunk) string { return series + ":" + chunkName(c) }

// chunkKeys returns the keys of a chunk: that of its sums and, if it is coarser than a minute, that of its peaks.
func chunkKeys(series string, c history.Chunk) []string {
	keys := []string{chunkKey(series, c)}
	if c.Tier > history.Minutes {
		keys = append(keys, series+":p"+chunkName(c))
	}
	return keys
}
