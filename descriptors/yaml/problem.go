package yaml

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

// Problem is one thing that is wrong in a file. Its text is short and printable, whatever the file holds.
type Problem struct {
	File    string
	Part    string // of a file that holds several; "" if it is the file itself
	Line    int    // from 1; 0 if no line is known
	Domain  string // "" outside a domain
	Path    string // of the descriptor, as rules have it; "" outside one
	Text    string // the fault and its remedy
	Warning bool   // the file can be used, but does hardly what its author meant
}

// Error returns the problem as people are shown it: shop.yaml:12: domain shop, user/path=/pay: unit is missing.
func (p Problem) Error() string {
	where := p.File
	if where != "" && p.Line > 0 {
		where += ":" + strconv.Itoa(p.Line)
	}
	if p.Part != "" {
		where += " (" + p.Part + ")"
	}
	about := descriptors.Abbreviate(descriptors.ReadablePath(p.Path))
	if p.Domain != "" {
		about = strings.TrimSuffix("domain "+descriptors.Abbreviate(p.Domain)+", "+about, ", ")
	}
	parts := slices.DeleteFunc([]string{descriptors.Printable(where), about}, func(part string) bool { return part == "" })
	return strings.Join(append(parts, p.Text), ": ")
}

// Problems are what [LastGood.Update] found, by file and line: up to 1,000 errors and 1,000 warnings.
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
