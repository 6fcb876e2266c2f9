package simulatecmd

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

// file is recorded traffic.
type file struct {
	name, domain string   // domain is that of requests without one; "" if each must have one
	domains      []string // configured domains
	mapping      string   // mapping of an access log; "" for CSV
	in           io.Reader
	all          []request
	left         int // lines of a log that lack the fields of all descriptors of the mapping
}

// read reads the file, or standard input for a dash. It reads all requests before the first is decided, as they may be
// in any order: an access log is written when requests end. Progress is in bytes.
func (f *file) read(ctx context.Context, in io.Reader, progress *terminal.Progress) (err error) {
	if f.name != "-" {
		opened, err := os.Open(f.name)
		if err != nil {
			return err
		}
		defer opened.Close()
		in = opened
		if about, err := opened.Stat(); err == nil {
			progress.Total.Store(about.Size()) // 0 of a pipe
		}
	}
	f.in = interruptible{ctx, in, &progress.Done}
	add := func(r request) { f.all = append(f.all, r) }
	if f.mapping != "" {
		err = f.readLog(add)
	} else {
		err = f.readCSV(add)
	}
	slices.SortStableFunc(f.all, func(a, b request) int { return a.at.Compare(b.at) })
	return err
}

// interruptible reads until a context ends, and counts bytes.
type interruptible struct {
	context.Context
	io.Reader
	done *atomic.Int64
}

// Read implements io.Reader.
func (r interruptible) Read(p []byte) (n int, err error) {
	if err := r.Err(); err != nil {
		return 0, fmt.Errorf("stopped before all was read: %w", err)
	}
	n, err = r.Reader.Read(p)
	r.done.Add(int64(n))
	return n, err
}

// traffic yields the requests of the file.
func (f *file) traffic(yield func(request) error) error {
	for _, r := range f.all {
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

// readCSV reads rows of time, descriptor, hits and domain, or with the columns of a header.
func (f *file) readCSV(add func(request)) error {
	rows := csv.NewReader(f.in)
	rows.ReuseRecord, rows.FieldsPerRecord = true, -1
	columns, known := []string{"time", "descriptor", "hits", "domain"}, make(map[string][]descriptors.Descriptor)
	for {
		row, err := rows.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", f.name, err)
		case slices.Contains(row, "descriptor"):
			for _, name := range row {
				if !slices.Contains(columns, name) {
					return fmt.Errorf("%s: the header names %q: use time, descriptor, hits and domain", f.name, name)
				}
			}
			columns = slices.Clone(row)
			continue
		}
		line, _ := rows.FieldPos(0)
		if len(row) > len(columns) {
			return fmt.Errorf("%s:%d: %d fields, and there are %d columns: put a descriptor with a comma in quotes", f.name, line, len(row), len(columns))
		}
		r, err := parseRow(func(name string) string {
			if i := slices.Index(columns, name); i >= 0 && i < len(row) {
				return row[i]
			}
			return ""
		}, known)
		if r.domain = cmp.Or(r.domain, f.domain); err == nil && r.domain == "" {
			err = fmt.Errorf("a column domain is missing, or --domain: one of %s", descriptors.Abbreviate(f.domains...))
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", f.name, line, err)
		}
		add(r)
	}
}

// parseRow parses a row. known caches descriptors by their texts.
func parseRow(field func(string) string, known map[string][]descriptors.Descriptor) (r request, err error) {
	hits, badHits := strconv.ParseUint(cmp.Or(field("hits"), "1"), 10, 32)
	if badHits != nil || hits == 0 {
		return r, fmt.Errorf("hits: %q is not a number from 1 to %d", field("hits"), uint32(math.MaxUint32))
	}
	text := field("descriptor")
	if known[text] == nil {
		if known[strings.Clone(text)], err = parseRequest(text); err != nil {
			return r, fmt.Errorf("descriptor: %w", err)
		}
	}
	r = request{domain: strings.Clone(field("domain")), descriptors: known[text], hits: uint32(hits)}
	r.at, err = parseTime(field("time"))
	return r, err
}

// parseRequest parses the descriptors of a request: user=ann + path=/pay.
func parseRequest(text string) (all []descriptors.Descriptor, err error) {
	for _, part := range descriptors.SplitRequest(strings.Clone(text)) {
		d, err := descriptors.ParseDescriptor(part)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// parseTime reads RFC 3339 or Unix seconds, with fractions.
func parseTime(text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds < 0 || seconds > 1e11 {
		return time.Time{}, fmt.Errorf("time: %q is neither RFC 3339, such as 2026-11-21T12:00:00.5Z, nor Unix seconds", text)
	}
	return time.UnixMicro(int64(math.Round(seconds * 1e6))), nil
}

// readLog reads Envoy's access log in JSON, an object a line.
func (f *file) readLog(add func(request)) error {
	mapped, err := parseRequest(f.mapping)
	if err != nil {
		return fmt.Errorf("--map: %w", err)
	}
	if rest := field.ReplaceAllString(f.mapping, ""); strings.ContainsAny(rest, "{}") {
		return fmt.Errorf("--map: %q is no field of the log: write {name}, {name|path} or {name|host}", rest[strings.IndexAny(rest, "{}"):])
	}
	seen := make(map[string]bool)
	lines := bufio.NewScanner(f.in)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		var fields map[string]any
		err := json.Unmarshal(lines.Bytes(), &fields)
		r := request{domain: f.domain}
		if err != nil {
			err = fmt.Errorf("the line is not a JSON object, as Envoy's json_format writes it: %w", err)
		} else if text, is := fields["start_time"].(string); !is {
			err = errors.New("the line has no start_time: add \"start_time\": \"%START_TIME%\" to Envoy's json_format")
		} else {
			r.at, err = parseTime(text)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", f.name, number, err)
		}
		if r.descriptors = mapFields(mapped, fields); len(r.descriptors) > 0 { // as Envoy asks nothing without one
			add(r)
			continue
		}
		f.left++
		for name := range fields {
			seen[name] = true
		}
	}
	switch {
	case lines.Err() != nil:
		return fmt.Errorf("%s: %w", f.name, lines.Err())
	case len(f.all) == 0 && f.left > 0:
		return fmt.Errorf("%s: no line has the fields of --map: there are %s", f.name, descriptors.Abbreviate(slices.Sorted(maps.Keys(seen))...))
	}
	return nil
}

// field is a field of an access log in a mapping: {path}, {path|path} without its query, {peer|host} without its port.
var field = regexp.MustCompile(`\{([^{}|]+)(\|path|\|host)?\}`)

// mapFields fills in fields. Like Envoy, it leaves out a descriptor of which a field is missing.
func mapFields(mapped []descriptors.Descriptor, fields map[string]any) (all []descriptors.Descriptor) {
	for _, m := range mapped {
		d, whole := slices.Clone(m), true
		for i := range d {
			d[i].Value = field.ReplaceAllStringFunc(d[i].Value, func(name string) string {
				parts := field.FindStringSubmatch(name)
				value := fields[parts[1]]
				text := fmt.Sprint(value)
				whole = whole && value != nil && text != "" && text != "-" // as Envoy writes what is not there
				switch parts[2] {
				case "|path":
					text, _, _ = strings.Cut(text, "?")
				case "|host":
					if host, _, err := net.SplitHostPort(text); err == nil {
						text = host
					}
				}
				return text
			})
		}
		if whole {
			all = append(all, d)
		}
	}
	return all
}
