package admin

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	historyapi "github.com/weirproxy/weir/server/history"
)

// truth is every hit that was ever counted, by series and minute: what answers are held against.
type truth map[historyapi.SeriesName]map[int64]uint64

func nameOf(id history.ID) historyapi.SeriesName {
	return historyapi.SeriesName{Domain: id.Domain, Path: id.Path, Outcome: id.Outcome.String(), Value: id.Value}
}

func (tr truth) between(name historyapi.SeriesName, from, to int64) (sum, peak uint64) {
	for minute, hits := range tr[name] {
		if minute >= from && minute < to {
			sum += hits
			peak = max(peak, hits)
		}
	}
	return sum, peak
}

// check complains about each number of an answer that is not the truth.
func (tr truth) check(a historyapi.HistoryAnswer) error {
	for _, s := range a.Series {
		all, _ := tr.between(s.SeriesName, 0, 1<<60)
		total, _ := tr.between(s.SeriesName, a.From, a.To)
		if s.Lifetime != all || s.Total != total {
			return fmt.Errorf("%+v: total %d, lifetime %d; want %d and %d", s.SeriesName, s.Total, s.Lifetime, total, all)
		}
		for _, p := range s.Points {
			sum, peak := tr.between(s.SeriesName, p.Start, p.Start+p.Width)
			if p.Sum != sum || p.Peak != peak || p.Start < a.From || p.Start+p.Width > a.To {
				return fmt.Errorf("%+v in %d to %d: point %+v, want sum %d and peak %d", s.SeriesName, a.From, a.To, p, sum, peak)
			}
		}
	}
	return nil
}

// randomHistory counts hits of some series over some months, and rolls them now and then.
func randomHistory(t *testing.T, r *rand.Rand) (*kept, truth) {
	k, tr := newKept(t, time.Date(2018, 10, 1, 0, 0, 0, 0, time.UTC)), make(truth)
	ids := []history.ID{annWithin, annOver, bobWithin, mailOver}
	for range 40 {
		k.now = k.now.Add(time.Duration(1+r.IntN(3*24*60)) * time.Minute)
		var hits []hit
		for range r.IntN(30) {
			at := k.now.Unix() - r.Int64N([]int64{3600, 86400, 30 * 86400}[r.IntN(3)])
			h := hit{id: ids[r.IntN(len(ids))], at: at - at%60}
			if name := nameOf(h.id); tr[name][h.at] == 0 {
				if tr[name] == nil {
					tr[name] = make(map[int64]uint64)
				}
				tr[name][h.at] = r.Uint64N(1<<r.IntN(40)) + 1
				hits = append(hits, hit{h.id, h.at, tr[name][h.at]})
			}
		}
		k.add(t, hits...)
		if r.IntN(3) == 0 {
			historytest.Downsample(t, k.store, k.now)
		}
	}
	return k, tr
}

// seed is what the random histories are made of; make soak passes its own.
var seed = flag.Uint64("seed", 22, "seed of the random histories and questions")

// How ranges are cut is proven in backend/history; here, that nothing on the way from the store to the client changes it.
func TestHistoryAnswersAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 1))
	zones := []string{"", "UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "Pacific/Chatham"}
	histories := 6
	if testing.Short() {
		histories = 2
	}
	for range histories {
		k, tr := randomHistory(t, r)
		for range 60 {
			length := int64(1) + r.Int64N([]int64{3600, 86400, 100 * 86400}[r.IntN(3)])
			to := k.now.Unix() + 86400 - r.Int64N(120*86400)
			q := url.Values{"from": {fmt.Sprint(to - length)}, "to": {fmt.Sprint(to)}, "tz": {zones[r.IntN(len(zones))]}}
			most, step := 0, int64(0)
			switch r.IntN(3) { // 0: as stored
			case 1:
				most = 1 + r.IntN([]int{3, 50, 800}[r.IntN(3)])
				q.Set("points", fmt.Sprint(most))
			case 2:
				step = []int64{900, 3600, 5400, 6 * 3600, 86400, 7 * 86400}[r.IntN(6)]
				q.Set("step", fmt.Sprint(step))
			}
			a := k.answer(t, q)
			err := tr.check(a)
			if err == nil && (a.From > to-length || a.To < to) {
				err = fmt.Errorf("%d to %d is less than was asked for", a.From, a.To)
			}
			if err == nil {
				err = checkShape(a, most, step, k.now.Unix())
			}
			if err != nil {
				t.Fatalf("-seed %d: %s: %v", *seed, q.Encode(), err)
			}
		}
	}
}

// checkShape complains about points that are too many, or not as wide as was asked for; 0 asks for neither.
func checkShape(a historyapi.HistoryAnswer, most int, step, now int64) error {
	warned := len(a.Warnings) > 0 && strings.HasPrefix(a.Warnings[0], "Steps of ")
	if step > 0 && (a.Step < step || (a.Step > step) != warned) {
		return fmt.Errorf("steps of %d, with the warnings %q", a.Step, a.Warnings)
	}
	for _, s := range a.Series {
		if most > 0 && (len(s.Points) > most || len(s.Points) != len(a.Series[0].Points)) {
			return fmt.Errorf("a series has %d points, the first has %d", len(s.Points), len(a.Series[0].Points))
		}
		for _, p := range s.Points {
			whole := step == 0 || a.Step >= 86400 || p.Width == a.Step && p.Start%a.Step == 0 ||
				86400%a.Step == 0 && p.Width <= a.Step // from a local midnight
			if !whole || p.Partial != (p.Start+p.Width > now) {
				return fmt.Errorf("point %+v is not a whole step of %d, or is not over before %d", p, a.Step, now)
			}
		}
	}
	return nil
}

func TestDamagedChunkHidesNoOtherSeries(t *testing.T) {
	dir := t.TempDir()
	k := keptBy(t, noon, filehistory.Open, dir)
	k.add(t, hit{bobWithin, noon.Unix(), 7}, hit{mailOver, noon.Unix(), 4}, hit{annWithin, noon.Unix() - 7200, 3})
	if err := k.store.Close(); err != nil {
		t.Fatal(err)
	}
	key := historytest.ChangeChunk(t, filepath.Join(dir, filehistory.Name), []byte{0x80})
	k = keptBy(t, noon, filehistory.Open, dir)
	var v historyapi.VerifyAnswer
	if k.ask(t, "/verify", &v); v.Series != 3 || v.Broken != 1 || len(v.Named) != 1 || !strings.Contains(v.Named[0].Error, key) {
		t.Fatalf("verify gives %+v, want one of 3 series broken, and %s in its error", v, key)
	}
	victim := v.Named[0].SeriesName
	of := "&domain=" + victim.Domain + "&path=" + url.QueryEscape(victim.Path)
	for question, found := range map[string]int{"?from=-1d": 2, "?from=-1d" + of: 0, "/top?from=-1d": 2} {
		var a struct {
			Series     []historyapi.SeriesAnswer
			Top        []historyapi.TopRow
			Unreadable int
			Warnings   []string
		}
		if k.ask(t, question, &a); len(a.Series)+len(a.Top) != found {
			t.Errorf("%s gives %+v, want %d series or rules: those that can be read", question, a, found)
		}
		if a.Unreadable != 1 || len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], " is left out, as it cannot be read: ") ||
			!strings.HasPrefix(a.Warnings[0], victim.Domain+" ") || !strings.Contains(a.Warnings[0], key) {
			t.Errorf("%s says that %d cannot be read, and warns %q, want 1, its name and %s", question, a.Unreadable, a.Warnings, key)
		}
	}
	if before := k.answer(t, url.Values{"from": {"-9d"}, "to": {"-8d"}}); len(before.Series) != 3 || before.Unreadable != 0 {
		t.Errorf("a range without the damaged chunk gives %+v, want all 3 series: nothing of them is in its way", before)
	}
}

// A series without a name is met again when a path that nobody has is looked for as a readable one.
func TestNamelessSeriesIsWarnedOfOnce(t *testing.T) {
	const key = "row 7374 is damaged"
	k := newKept(t, noon)
	k.History = historyapi.New(&failing{Store: k.store, with: history.Series{Unnamed: true, Points: []history.Point{{Sum: 7}}, Err: errors.New(key)}}, 0,
		func() time.Time { return noon })
	for _, path := range []string{"", "user/path=/pay", "nowhere"} {
		a := k.answer(t, url.Values{"path": {path}})
		if a.Unreadable != 1 || len(a.Warnings) != 1 || len(a.Series) > 0 ||
			!strings.HasPrefix(a.Warnings[0], "A series whose name cannot be read is left out") || !strings.Contains(a.Warnings[0], key) {
			t.Errorf("path %q: the answer is %+v, want no series, and one warning with %s", path, a, key)
		}
	}
	const want = `"named":[{"domain":"","path":"","outcome":"","value":"","stored":7,"expired":0,"lifetime":0,"error":"` + key
	if code, body := k.get("/api/v1/history/verify"); code != 200 || !strings.Contains(body, want) {
		t.Errorf("verify gives %d %s, want %s", code, body, want)
	}
}
