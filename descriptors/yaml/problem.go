package yaml

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

// Problem is an error or a warning about a file. Its text is short and printable, whatever the content of the file.
type Problem struct {
	File    string
	Part    string // name of the part, if File has several descriptor files, else ""
	Line    int    // from 1; 0 if unknown
	Domain  string // "" outside a domain
	Path    string // path of the descriptor, as in Rule.Path; "" outside a descriptor
	Text    string // the problem and its remedy
	Warning bool   // the file can be used, but probably does not do what its author meant
}

// Error returns the problem for people: shop.yaml:12: domain shop, user/path=/pay: unit is missing.
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

// Problems are the problems of a set of files, by file and line: up to 1,000 errors and 1,000 warnings.
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
