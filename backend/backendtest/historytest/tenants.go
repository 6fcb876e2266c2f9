package historytest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// TenantDays is for how many days [Tenants] makes up hits.
const TenantDays = 400

// tenantSeries is a series of made-up hits.
type tenantSeries struct {
	id      history.ID
	perHour uint64                 // at noon of a working day; nights and weekends have less
	when    func(at time.Time) int // percent of that, while it is recent; before, it is only there every fourth hour
}

// tenantRecent is for how long series have hits in every hour.
const tenantRecent = 40 * 24 * time.Hour

func always(time.Time) int { return 100 }

// tenantSeriesOf returns what the shop and the mail of a few tenants have, until a moment. Tenant acme runs over its
// limit in the last week, logins are attacked for two hours a month before it, and the mail began 30 days ago.
func tenantSeriesOf(until time.Time) []tenantSeries {
	const d = 24 * time.Hour
	lastWeek := func(at time.Time) int {
		if until.Sub(at) <= 5*d && at.Hour() >= 9 && at.Hour() < 17 {
			return 100
		}
		return 0
	}
	attack := func(at time.Time) int {
		if age := until.Sub(at); age <= 30*d && age > 30*d-2*time.Hour {
			return 5000
		}
		return 1
	}
	young := func(at time.Time) int {
		if until.Sub(at) <= 30*d {
			return 100
		}
		return 0
	}
	shop := func(path, value string, o history.Outcome) history.ID {
		return history.ID{Domain: "shop", Path: path, Value: value, Outcome: o}
	}
	return []tenantSeries{
		{shop("user/path=%2Flogin", "", history.Within), 300, always},
		{shop("user/path=%2Flogin", "", history.Over), 40, attack},
		{shop("user/path=%2Fpay", "", history.Within), 120, always},
		{shop("tenant", "tenant=acme", history.Within), 900, always},
		{shop("tenant", "tenant=acme", history.Over), 350, lastWeek},
		{shop("tenant", "tenant=globex", history.Within), 500, always},
		{shop("tenant", "tenant=initech", history.Within), 80, always},
		{history.ID{Domain: "mail", Path: "from", Outcome: history.Within}, 60, young},
	}
}

// hits returns how many hits the series has in the minutes of an hour in which it has any.
func (s *tenantSeries) hits(at time.Time) uint64 {
	share := [24]uint64{10, 6, 4, 3, 4, 8, 20, 45, 70, 85, 95, 100, 100, 95, 90, 95, 100, 90, 75, 60, 50, 40, 28, 16}[at.Hour()]
	if day := at.Weekday(); day == time.Saturday || day == time.Sunday {
		share /= 2
	}
	return s.perHour * share * uint64(s.when(at)) / 10_000
}

// Tenants fills an empty store with the hits of made-up tenants over more than a year, until a moment, as writers and
// the job would have: set turns the store's clock. It returns how many hits a series has in a range of Unix seconds.
func Tenants(t testing.TB, store history.Store, until time.Time, set func(time.Time)) (count func(history.ID, history.Range) uint64) {
	t.Helper()
	all := tenantSeriesOf(until)
	first := until.UTC().Truncate(24*time.Hour).AddDate(0, 0, -TenantDays)
	each := func(s *tenantSeries, from, to time.Time, visit func(minute int64, hits uint64)) {
		for at := from; at.Before(to); at = at.Add(time.Hour) {
			if until.Sub(at) > tenantRecent && at.Hour()%4 > 0 {
				continue
			}
			for i, part := range [...]uint64{50, 30, 20} { // percent
				if n := s.hits(at) * part / 100; n > 0 && at.Unix()+int64(i)*1200 < until.Unix() {
					visit(at.Unix()/60+int64(i)*20, n)
				}
			}
		}
	}
	for day := range TenantDays + 1 {
		from := first.AddDate(0, 0, day)
		to := from.AddDate(0, 0, 1)
		if to.After(until) {
			to = until
		}
		set(to)
		byPartition := make(map[history.Partition][]history.Increment)
		for i := range all {
			each(&all[i], from, to, func(minute int64, hits uint64) {
				p := all[i].id.Partition()
				byPartition[p] = append(byPartition[p], history.Increment{ID: all[i].id, Minute: minute, Hits: hits})
			})
		}
		for p, increments := range byPartition {
			seq := uint64(0)
			for some := range slices.Chunk(increments, history.MaxBatch) {
				seq++
				b := history.Batch{Writer: fmt.Sprint("day", day), Seq: seq, After: seq - 1, Increments: some}
				if r, err := store.Apply(t.Context(), p, b); err != nil || r.Landing != history.Landed || r.Clamped+r.Refused > 0 {
					t.Fatalf("applying day %d: %+v, %v", day, r, err)
				}
			}
		}
		if day%7 == 0 || day == TenantDays {
			if _, err := store.Roll(t.Context(), history.Job{Now: to}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return func(id history.ID, in history.Range) (sum uint64) {
		i := slices.IndexFunc(all, func(s tenantSeries) bool { return s.id == id })
		each(&all[i], first, until, func(minute int64, hits uint64) {
			if at := minute * 60; at >= in.From && at < in.To {
				sum += hits
			}
		})
		return sum
	}
}
