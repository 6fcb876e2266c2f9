package yaml

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

// manyWarnings is a mapping that gives 600 warnings, and is read quickly: two files that have it have more than are
// told.
var manyWarnings = "{l: [&m {" + strings.Repeat("a, ", 21) + "}" + strings.Repeat(", *m", 29) + "]}"

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
	case 3:
		fmt.Fprintf(&b, "- {key: w, rate_limit: {unit: day}, metadata: %s}\n", manyWarnings)
	case 4:
		return "domain: " + domain
	}
	return b.String()
}

// spelled returns the choices that a number stands for.
func spelled(number uint32) choices {
	var seed [32]byte
	binary.LittleEndian.PutUint32(seed[:], number)
	c := make(choices, 32)
	rand.NewChaCha8(seed).Read(c) // never fails
	return c
}

// checkRenewals changes, breaks, mends, renames and deletes files, in each step as its number spells it. It fails
// unless each renewal is the same as one that reads all files again, and leaves the configurations before it as they
// were. It returns how many domains were used as they are held.
func checkRenewals(t *testing.T, steps []uint32) (reused int) {
	t.Helper()
	choose := spelled(^steps[0])
	o := Options{Merge: choose.next(2) > 0, Keys: descriptors.Keys{Prefix: choose.of("", "p")}}
	held, reading := NewLastGood(o), NewLastGood(o)
	names := []string{"1", "2", "3", "d/4", "d/5"}
	now := make(map[string]string)
	var before Update
	var asBefore *descriptors.Config // what before.Config was like when it was new
	for step, number := range steps {
		choose := spelled(number)
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
		why := func() string {
			return fmt.Sprintf("step %d, with Merge %v and %v unreadable, of\n%s", step, o.Merge, unreadable, files)
		}
		got, want := held.Update(files, unreadable), reading.update(NewLastGood(o).read(files), unreadable)
		checkSameUpdate(t, got, want, why)
		if !reflect.DeepEqual(before.Config, asBefore) {
			t.Fatalf("%s: the configuration that was in force has changed to\n%s", why(), allOf(before))
		}
		if got.Config == nil {
			continue
		}
		for domain, form := range got.LastGood.domains {
			if last, there := held.domains[domain]; there && last.domain == form.domain && !slices.Contains(got.Kept, domain) {
				reused++
			}
		}
		held, reading = got.LastGood, want.LastGood
		before, asBefore = got, checkForms(t, got, o)
	}
	return reused
}

func checkSameUpdate(t *testing.T, got, want Update, why func() string) {
	t.Helper()
	if !slices.Equal(got.Problems, want.Problems) {
		t.Fatalf("%s: the problems are\n%v\nwhere all files read again have\n%v", why(), got.Problems, want.Problems)
	}
	if !slices.Equal(got.Kept, want.Kept) || got.Told() != want.Told() || !maps.Equal(got.LastGood.of, want.LastGood.of) {
		t.Fatalf("%s: got %+v, where all files read again give %+v", why(), got, want)
	}
	if (got.Config == nil) != (want.Config == nil) {
		t.Fatalf("%s: whether something is to be put in force is %v, want %v", why(), got.Config != nil, want.Config != nil)
	}
	if got.Config == nil {
		return
	}
	if !reflect.DeepEqual(got.Config, want.Config) {
		t.Fatalf("%s: the configuration is\n%s\nwhere all files read again give\n%s", why(), allOf(got), allOf(want))
	}
}

func TestAnUpdateIsThatOfAllFilesReadAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	reused := 0
	for range walks(12, 30) {
		steps := make([]uint32, 20)
		for i := range steps {
			steps[i] = random.Uint32()
		}
		reused += checkRenewals(t, steps)
	}
	t.Logf("%d domains were used as they are held", reused)
	if reused < 60 {
		t.Errorf("only %d domains were used as they are held: the walk says little about them", reused)
	}
}

// FuzzUpdate walks eight steps. They are numbers, since go test minimizes what is bytes, with thousands of runs for each
// input that it finds of interest, and loses them when their time is over.
func FuzzUpdate(f *testing.F) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 10 {
		n := random.Uint32
		f.Add(n(), n(), n(), n(), n(), n(), n(), n())
	}
	f.Fuzz(func(t *testing.T, s1, s2, s3, s4, s5, s6, s7, s8 uint32) {
		checkRenewals(t, []uint32{s1, s2, s3, s4, s5, s6, s7, s8})
	})
}
