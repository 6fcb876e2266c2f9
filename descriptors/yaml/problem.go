package yaml

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong in a configuration file. Its texts are short and printable, whatever the file
// holds.
type Problem struct {
	File    string
	Line    int    // from 1; 0 if no line is known
	Domain  string // "" outside a domain
	Path    string // of the descriptor, readable; "" outside one
	Text    string // what is wrong, and what would be right
	Warning bool   // the file can be used, but does hardly what its author meant
}

// Error returns the problem as people are shown it: shop.yaml:12: domain shop, user/path=/pay: unit is missing.
func (p Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			b.WriteString(":" + strconv.Itoa(p.Line))
		}
		b.WriteString(": ")
	}
	switch {
	case p.Domain != "" && p.Path != "":
		b.WriteString("domain " + p.Domain + ", " + p.Path + ": ")
	case p.Domain != "":
		b.WriteString("domain " + p.Domain + ": ")
	case p.Path != "":
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Text)
	return b.String()
}

// String returns the same as [Problem.Error].
func (p Problem) String() string { return p.Error() }

// Problems are what [Parse] found, by file and line.
type Problems []Problem

// Err joins all problems that are not warnings, one a line. It is nil if there is none.
func (ps Problems) Err() error {
	var errs []error
	for _, p := range ps {
		if !p.Warning {
			errs = append(errs, p)
		}
	}
	return errors.Join(errs...)
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}
