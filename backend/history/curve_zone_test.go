package history

import (
	"slices"
	"testing"
	"time"
)

// withHalfHours are zones that are, or at some time were, a half or a quarter of an hour from UTC, and two of whole
// hours.
var withHalfHours = []string{"Asia/Kolkata", "Asia/Kathmandu", "Asia/Tehran", "Asia/Kabul", "Asia/Yangon", "Asia/Colombo", "Asia/Pyongyang",
	"Australia/Adelaide", "Australia/Darwin", "Australia/Eucla", "Australia/Lord_Howe", "America/St_Johns", "America/Caracas",
	"Pacific/Chatham", "Pacific/Marquesas", "Pacific/Norfolk", "Europe/Berlin", "Asia/Tokyo"}

// A range of local days is cut and widened to the same ends whatever the step, if that is not above an hour in zones of
// whole ones, and each of its days is one bucket.
func TestEachLocalDayIsOneBucket(t *testing.T) {
	for _, name := range withHalfHours {
		zone := zoneOf(t, name)
		for stored := range Tier(Tiers) {
			for month := range time.Month(24) {
				for _, days := range []int{1, 3} {
					first := time.Date(2025, month, 25, 0, 0, 0, 0, zone)
					asked := Range{first.Unix(), first.AddDate(0, 0, days).Unix()}
					var met Extent
					width := stored.Width()
					met.Add([]Point{{Start: floorDiv(asked.From, width) * width, Tier: stored}, {Start: floorDiv(asked.To-1, width) * width, Tier: stored}})
					byDay := met.cutByStep(asked, Day, zone)
					if len(byDay.Borders) != days+1 {
						t.Fatalf("%s, stored by %v: %d days from %v are cut at %v", name, stored, days, first, shown(byDay.Borders, zone))
					}
					want := byDay.Range()
					if off := max(want.From-asked.From, asked.From-want.From, want.To-asked.To, asked.To-want.To); off > width/2 {
						t.Fatalf("%s, stored by %v: %d days from %v are %v, more than half a stored bucket off", name, stored, days, first, shown(byDay.Borders, zone))
					}
					if got := met.widen(asked, zone); got != want {
						t.Fatalf("%s, stored by %v: %d days from %v are %v as stored, and %v by days", name, stored, days, first, got, want)
					}
					for _, step := range []int64{Minute, 5 * Minute, 15 * Minute, 30 * Minute, Hour, 2 * Hour, 3 * Hour, 6 * Hour, 12 * Hour} {
						if step > Hour && asked.From%Hour == 0 && asked.To%Hour == 0 {
							continue // these begin at multiples since 1970
						}
						cut := met.cutByStep(asked, met.stepWidth(step), zone)
						if got := cut.Range(); got != want || !containsAll(cut.Borders, byDay.Borders) {
							t.Fatalf("%s, stored by %v: %d days from %v by %d s are cut at %v, want all midnights and ends of %v among them",
								name, stored, days, first, step, shown(cut.Borders, zone), shown(byDay.Borders, zone))
						}
					}
					if cut := met.cutByNumber(asked, 100, zone); cut.Range() != want {
						t.Fatalf("%s, stored by %v: %d days from %v as a picture are %v, want %v", name, stored, days, first, cut.Range(), want)
					}
				}
			}
		}
	}
}

func containsAll(borders, some []int64) bool {
	return !slices.ContainsFunc(some, func(at int64) bool { return !slices.Contains(borders, at) })
}

// An end that is a midnight takes no bucket from a range that lies between it and where it moves.
func TestRangesNearAMovedMidnightKeepBuckets(t *testing.T) {
	zone := zoneOf(t, "Asia/Kolkata")
	var met Extent
	met.Add([]Point{{Start: unix(t, "2026-10-24T18:00:00Z"), Tier: Hours}})
	for _, asked := range []Range{{unix(t, "2026-10-24T23:45:00+05:30"), unix(t, "2026-10-25T00:00:00+05:30")},
		{unix(t, "2026-10-25T00:00:00+05:30"), unix(t, "2026-10-25T00:15:00+05:30")}} {
		for _, cut := range []Cut{met.cutByStep(asked, Hour, zone), met.cutByNumber(asked, 1, zone)} {
			if got := cut.Range(); got.From > asked.From || got.To < asked.To {
				t.Errorf("%v is cut into %v, though its hits are in the hour around midnight", asked, shown(cut.Borders, zone))
			}
		}
	}
}
