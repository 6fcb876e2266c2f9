package redishistory

import (
	"cmp"
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// as is a fleet whose servers know a user with some rights and no others, who is used.
func (f fleet) as(t *testing.T, user string, rules ...string) fleet {
	t.Helper()
	command := []any{"acl", "setuser", user, "reset", "on", ">secret"}
	for _, rule := range rules {
		command = append(command, rule)
	}
	for _, s := range f.Servers {
		if err := s.Client().Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Client().Do(context.Background(), "acl", "deluser", user) })
	}
	f.config.Auth = user + ":secret"
	return f
}

// An operator copies the lines of OPERATION.md into an ACL: a right that they leave out is a history that is not kept.
func TestOperationDocumentListsEveryRight(t *testing.T) {
	text, err := os.ReadFile("../../../cmd/weir/OPERATION.md")
	if err != nil {
		t.Fatal(err)
	}
	document := strings.NewReplacer("`", " ", "\n", " ").Replace(string(text))
	const readers = "    ACL SETUSER reader on >secret "
	_, line, _ := strings.Cut(string(text), readers)
	line, _, _ = strings.Cut(line, "\n")
	for _, rule := range append([]string{"+ping"}, strings.Fields(readingRights)...) {
		if !slices.Contains(strings.Fields(line), rule) {
			t.Errorf("OPERATION.md does not name the right %s for those who only read: %s%s", rule, readers, line)
		}
	}
	for _, rule := range strings.Fields(rights + movingRights) {
		if !strings.Contains(document, " "+rule+" ") {
			t.Errorf("OPERATION.md does not name the right %s, which the history in Redis needs", rule)
		}
	}
}

// Whoever only reads needs a user of Redis that cannot do anything else, on any topology.
func TestReadingNeedsNoWriteRight(t *testing.T) {
	for name, f := range map[string]fleet{"single": shared(t, topology.Single), "ring": shared(t, topology.Ring),
		"cluster": shared(t, topology.Cluster)} {
		t.Run(name, func(t *testing.T) {
			f.Flush(t)
			reading := append([]string{"+ping", "+cluster|slots", "+asking"}, strings.Fields(readingRights)...)
			reader := opened(t, f.as(t, "reader", reading...), nil, func(c *Config) { c.ReadOnly = true })
			if name == "ring" && reader.Ready() == nil {
				t.Error("a ring on which no weir has kept anything is read: want an error that says so")
			}
			writer := opened(t, f, fixed(start), nil)
			newWriter(writer, 3).count(t, 0)
			want, got := historytest.All(t, writer), historytest.All(t, reader)
			if !reflect.DeepEqual(got, want) || len(want) != 3 {
				t.Errorf("the reader finds %v, want %v, as the writer does", got, want)
			}
			if err := reader.Ready(); err != nil {
				t.Errorf("the reader does not find its Redis: %v", err)
			}
			_, applied := reader.Apply(t.Context(), 0, history.Batch{Writer: "ann", Seq: 1})
			_, downsampled := reader.Downsample(t.Context(), start)
			for what, err := range map[string]error{"writes": applied, "downsamples": downsampled} {
				if !errors.Is(err, errReadOnly) {
					t.Errorf("a reader that %s: %v, want an error", what, err)
				}
			}
		})
	}
}

// It is named, and no series is told to be damaged.
func TestMissingRightIsNamed(t *testing.T) {
	f := shared(t, topology.Single)
	for _, c := range []struct{ promise, without string }{
		{"all that the error asks for is enough", ""},
		{"a command of the scripts", "+hincrby"},
		{"one that only moves need", "+del"},
		{"one that reading needs, too", "+hgetall"},
		{"a command beside them", "+zscan"},
		{"what WaitReplicated asks", "+info"},
	} {
		t.Run(c.promise, func(t *testing.T) {
			f.Flush(t)
			a := newWriter(opened(t, f, fixed(start), nil), 2)
			a.count(t, 0)
			granted := slices.DeleteFunc(slices.Concat(strings.Fields(rights), []string{"+ping", "+time"}),
				func(rule string) bool { return rule == c.without })
			s := opened(t, f.as(t, "weir", granted...), fixed(start), nil)
			_, applied := s.Apply(t.Context(), a.p, a.next(start.Unix()/60))
			_, downsampled := s.Downsample(t.Context(), start)
			asked := s.Query(t.Context(), historytest.Everything(), func(one history.Series) error { return one.Err })
			err := cmp.Or(applied, downsampled, asked, s.WaitReplicated(t.Context()))
			says := func(want string) bool { return err != nil && strings.Contains(strings.ToLower(err.Error()), want) }
			switch {
			case errors.Is(errors.Join(applied, downsampled, asked), ErrDamaged):
				t.Errorf("without the right %s: %v, %v, %v, want that it is missing, and nothing of damage", c.without, applied, downsampled, asked)
			case c.without == "" && err != nil:
				t.Errorf("with all rights: %v", err)
			case c.without == "+info" && !says("noperm"):
				t.Errorf("without the right to INFO WaitReplicated says %v, want the server's own error at once", err)
			case c.without != "" && c.without != "+info" && !(says(c.without[1:]) && says("acl setuser weir")):
				t.Errorf("without the right %s the error is %v, want it to name that and the line that grants it", c.without, err)
			}
		})
	}
}

// A mover's user needs what OPERATION.md names, and of no more.
func TestMoverNeedsItsRights(t *testing.T) {
	f := shared(t, topology.Ring)
	newWriter(opened(t, f, fixed(start), nil), 3).count(t, 0)
	to := MoveConfig{To: f.Servers[0].Addr}
	granted := append([]string{"+ping"}, strings.Fields(rights)...)
	_, err := opened(t, f.as(t, "weir", granted...), fixed(start), func(c *Config) { c.Moves = true }).Move(t.Context(), to)
	if err == nil || !strings.Contains(err.Error(), "+restore") {
		t.Errorf("without its rights a mover ends with %v, want it to name them", err)
	}
	granted = append(granted, strings.Fields(movingRights)...)
	if _, err := opened(t, f.as(t, "weir", granted...), fixed(start), func(c *Config) { c.Moves = true }).Move(t.Context(), to); err != nil {
		t.Errorf("with all rights a mover ends with %v", err)
	}
}
