package denials

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// Denials that one process stores and the next restores are found as before, after the next one's own denials.
func TestStoredDenialsAreRestoredAsTheyWere(t *testing.T) {
	before := newWorld(t, shop)
	before.recorder.Weir = "pod:1"
	for i := range 6 {
		before.deny(noon.Add(time.Duration(i)*25*time.Second), 2, i == 1, entry("user", fmt.Sprint("a,b", i%2)))
	}
	var stored []byte
	put := func(all []Summary) (err error) {
		stored, err = json.Marshal(all)
		return err
	}
	count := func() (n int) {
		var all []Summary
		if err := json.Unmarshal(stored, &all); err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if err := before.recorder.Store(noon.Add(90*time.Second), func([]Summary) error { return errors.New("away") }); err == nil {
		t.Error("a store that is away is no error")
	}
	if _ = before.recorder.Store(noon.Add(90*time.Second), put); count() != 2 {
		t.Errorf("%d lines are stored in the second minute, want the two of the first: others still count", count())
	}
	first := slices.Clone(stored)
	if _ = before.recorder.Store(noon.Add(time.Hour), put); count() != 3 {
		t.Errorf("%d lines are stored then, want the other three", count())
	}
	var all, later []Summary
	if err := errors.Join(json.Unmarshal(first, &all), json.Unmarshal(stored, &later)); err != nil {
		t.Fatal(err)
	}
	all = append(all, later...)

	now := newWorld(t, "domain: other")
	now.apply(t, shop)
	now.deny(noon.Add(time.Hour), 9, false, entry("user", "eve"))
	now.recorder.Restore(all)
	want, _, _ := before.recorder.Recent(Filter{Values: true}, 99)
	got, _, _ := now.recorder.Recent(Filter{Values: true}, 99)
	if len(got) != 6 || got[0].Descriptor != "user=eve" || got[0].Weir != "" {
		t.Fatalf("there are %+v, want eve of this process first, then five", got)
	}
	for i, s := range got[1:] {
		s.Last.At, s.First = s.Last.At.UTC(), s.First.UTC()
		w := want[i]
		w.Weir, w.Last.At, w.First = "pod:1", w.Last.At.UTC(), w.First.UTC()
		if s != w {
			t.Errorf("restored is %+v, want %+v", s, w)
		}
	}
	if found, _, _ := now.recorder.Recent(Filter{Descriptor: entry("user", "a,b1"), From: noon, To: noon.Add(time.Minute)}, 9); len(found) != 1 || !found[0].Shadow {
		t.Errorf("by its descriptor and time %+v is found, want one in shadow mode", found)
	}
	if _ = now.recorder.Store(noon.Add(2*time.Hour), put); count() != 1 {
		t.Errorf("%d lines are stored by the next process, want its own", count())
	}
}

// Restored denials do not evict this process's own, however many they are.
func TestRestoredDenialsMakeRoomForOwn(t *testing.T) {
	w := newWorld(t, shop)
	for i := range 100 {
		w.deny(noon.Add(time.Hour), 1, false, entry("user", fmt.Sprint("own", i)))
	}
	stored := make([]Summary, slots)
	for i := range stored {
		stored[i] = Summary{Weir: "pod:1", Domain: "shop", Path: "user", Descriptor: fmt.Sprint("user=old", i), First: noon, Requests: 1, Last: Denial{At: noon}}
	}
	w.recorder.Restore(stored)
	all, _, _ := w.recorder.Recent(Filter{Values: true}, slots)
	if len(all) != slots || all[99].Weir != "" || all[100].Descriptor != fmt.Sprint("user=old", slots-1) {
		t.Errorf("%d are kept, the 100th %+v and the 101st %+v; want all own and the newest of those that were stored", len(all), all[99], all[100])
	}
}
