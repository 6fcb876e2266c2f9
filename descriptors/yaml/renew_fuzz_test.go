package yaml

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

// text is a file as an operator may leave it: most often good, with what other files change the meaning of.
func (c *choices) text() string {
	domain := c.of("a", "b", "c", "a", "b", "c", "z")
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\ndescriptors:\n", domain)
	seen := make(map[string]bool)
	for range 1 + c.next(3) {
		name := c.of("k", "l", "m*", "n_o", "n")
		if seen[name] {
			continue
		}
		seen[name] = true
		fmt.Fprintf(&b, "- key: %s\n", name)
		switch c.next(6) {
		case 0: // it passes
		case 1:
			b.WriteString("  descriptors: [{key: below, rate_limit: {unlimited: true}}, {key: '*', value_to_metric: on}]\n")
		case 2:
			fmt.Fprintf(&b, "  rate_limit: {unlimited: true, name: %s, replaces: [{name: %s}]}\n", c.of("p", "q"), c.of("r", "s"))
		default:
			fmt.Fprintf(&b, "  rate_limit: {unit: day, requests_per_unit: %d, name: %s}\n", c.next(5), c.of("p", "q", "r", "s"))
		}
	}
	switch c.next(16) {
	case 0:
		return "]["
	case 1:
		return "domain: " + domain + "\n  - ]"
	case 2:
		b.WriteString("- {key: k, value: v, unknown: key}\n")
	case 3: // warnings, of which two such files have more than are told
		fmt.Fprintf(&b, "- {key: w, rate_limit: {unit: day}, metadata: {%s}}\n", strings.Repeat("a: 1, ", 600))
	case 4:
		return "domain: " + domain
	}
	return b.String()
}

// unused is a Held that renews as h does, but reads all files again.
func unused(h *Held) *Held {
	plain := *h
	plain.domains = make(map[string]form)
	for domain, f := range h.domains {
		f.files = slices.Clone(f.files)
		for i := range f.files {
			f.files[i].untold = true
		}
		plain.domains[domain] = f
	}
	return &plain
}

// checkRenewals changes, breaks, mends, renames and deletes files as data spells it. It fails unless each renewal is
// the same as one that reads all files again, and leaves the configurations before it as they were. It gives how many
// domains were taken as they are held.
func checkRenewals(t *testing.T, data []byte) (taken int) {
	t.Helper()
	choose := choices(data)
	o := Options{Merge: choose.next(2) > 0, KeyPrefix: choose.of("", "p")}
	held, reading := NewHeld(o), NewHeld(o)
	names := []string{"1", "2", "3", "d/4", "d/5"}
	now := make(map[string]string)
	var before Renewal
	var asBefore *descriptors.Config // what before.Config was like when it was new
	for step := 0; len(choose) > 0; step++ {
		var unreadable []string
		switch name := names[choose.next(len(names))]; choose.next(8) {
		case 0:
			delete(now, name)
		case 1:
			other := names[choose.next(len(names))]
			now[name], now[other] = now[other], now[name]
		case 2:
			unreadable = []string{choose.of("1", "d", "3")}
			maps.DeleteFunc(now, func(file, _ string) bool { return within(file, unreadable) })
		default:
			now[name] = choose.text()
		}
		var files []File
		for name, text := range now {
			files = append(files, File{name, []byte(text)})
		}
		got, want := held.Renew(files, unreadable), unused(reading).Renew(files, unreadable)
		why := fmt.Sprintf("step %d, with Merge %v and %v unreadable, of\n%s", step, o.Merge, unreadable, files)
		checkSameRenewal(t, got, want, why)
		if told := NewHeld(o).read(files).problems; !slices.Equal(got.Problems, told) {
			t.Fatalf("%s: the problems are\n%v\nwhere the files alone have\n%v", why, got.Problems, told)
		}
		if !reflect.DeepEqual(before.Config, asBefore) {
			t.Fatalf("%s: the configuration that was in force has changed to\n%s", why, allOf(before))
		}
		if got.Config == nil {
			continue
		}
		for domain, form := range got.Held.domains {
			if last, there := held.domains[domain]; there && last.domain == form.domain && !slices.Contains(got.Kept, domain) {
				taken++
			}
		}
		held, reading = got.Held, want.Held
		before, asBefore = got, checkForms(t, got, o)
	}
	return taken
}

func checkSameRenewal(t *testing.T, got, want Renewal, why string) {
	t.Helper()
	if !slices.Equal(got.Problems, want.Problems) {
		t.Fatalf("%s: the problems are\n%v\nwhere all files read again have\n%v", why, got.Problems, want.Problems)
	}
	if !slices.Equal(got.Kept, want.Kept) || got.Told() != want.Told() || !maps.Equal(got.Held.of, want.Held.of) {
		t.Fatalf("%s: got %+v, where all files read again give %+v", why, got, want)
	}
	if (got.Config == nil) != (want.Config == nil) {
		t.Fatalf("%s: whether something is to be put in force is %v, want %v", why, got.Config != nil, want.Config != nil)
	}
	if got.Config == nil {
		return
	}
	if !reflect.DeepEqual(got.Config, want.Config) {
		t.Fatalf("%s: the configuration is\n%s\nwhere all files read again give\n%s", why, allOf(got), allOf(want))
	}
}

func TestARenewalIsThatOfAllFilesReadAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	taken := 0
	for range 30 {
		data := make([]byte, 150)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		taken += checkRenewals(t, data)
	}
	t.Logf("%d domains were taken as they are held", taken)
	if taken < 150 {
		t.Errorf("only %d domains were taken as they are held: the walk says little about them", taken)
	}
}

func FuzzRenew(f *testing.F) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 10 {
		data := make([]byte, 100)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkRenewals(t, data[:min(len(data), 150)]) })
}
