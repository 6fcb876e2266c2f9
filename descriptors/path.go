package descriptors

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// StoredPath returns the path that a rule is counted by, of a text that is one, or that is one as [ReadablePath] shows
// it: user/path=%2Flogin of user/path=/login. A text that could be a stored path is taken for one. Its error says why a
// text cannot be read, as it may mean several rules, or none.
func StoredPath(text string) (string, error) {
	if stored.MatchString(text) {
		return text, nil
	}
	if escape.MatchString(text) {
		return "", errors.New("some of it is percent-escaped, but not as weir does: write / = % in keys and values as %2F %3D %25")
	}
	pieces := strings.Split(text, "/")
	begins := whereLevelsBegin(pieces)
	if !begins[0] {
		return "", errors.New("no rule has this path: its levels are KEY or KEY=VALUE, with / between them")
	}
	long, short := joinLevels(pieces, nil), joinLevels(pieces, begins)
	if long != short {
		return "", fmt.Errorf("it may mean %s, %s or others: write the one that is meant", Quoted(long), Quoted(short))
	}
	return long, nil
}

var (
	// stored is what [PathSegment] makes of levels.
	stored = regexp.MustCompile(strings.ReplaceAll(strings.ReplaceAll(`^LEVEL(?:/LEVEL)*$`,
		"LEVEL", "TEXT+(?:=TEXT+)?"), "TEXT", "(?:[^/=%]|%25|%2F|%3D)"))
	// escape is what may be a percent-escape, also one that paths do not have.
	escape = regexp.MustCompile(`%[0-9a-fA-F]{2}`)
)

// whereLevelsBegin reports for each piece of a readable path, which was split at each slash, whether it and all behind it
// can be levels. Only values may hold slashes and equal signs.
func whereLevelsBegin(pieces []string) []bool {
	begins := make([]bool, len(pieces))
	for i := len(pieces) - 1; i >= 0; i-- {
		key, value, has := strings.Cut(pieces[i], "=")
		last := i == len(pieces)-1
		switch {
		case key == "":
		case !has:
			begins[i] = last || begins[i+1]
		default:
			begins[i] = value != "" || !last
		}
	}
	return begins
}

// joinLevels escapes a readable path. Where begins is nil, all behind the first equal sign is its value; otherwise a
// value ends where the next level can begin.
func joinLevels(pieces []string, begins []bool) string {
	var levels []string
	for i := 0; i < len(pieces); {
		end := i + 1
		key, value, has := strings.Cut(pieces[i], "=")
		for begun := value != ""; has && end < len(pieces) && !(begun && begins != nil && begins[end]); end++ {
			begun = true
		}
		if has {
			value = strings.Join(pieces[i:end], "/")[len(key)+1:]
		}
		levels = append(levels, PathSegment(key, value))
		i = end
	}
	return strings.Join(levels, "/")
}
