package admin

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/server/curves"
)

// year is a year of a number of series that are hit every minute.
func year(b *testing.B, series int) *kept {
	k := newKept(b, noon)
	for i := range series {
		id := history.ID{Domain: "shop", Path: fmt.Sprint("rule", i)}
		var hits []hit
		for age := time.Duration(0); age < 365*24*time.Hour; {
			hits = append(hits, hit{id, noon.Add(-age).Unix(), 500})
			switch { // what is old is rolled: a hit for each bucket that it leaves is enough
			case age < 26*time.Hour:
				age += time.Minute
			case age < 9*24*time.Hour:
				age += 5 * time.Minute
			case age < 38*24*time.Hour:
				age += time.Hour
			default:
				age += 24 * time.Hour
			}
		}
		k.add(b, hits...)
		k.roll(b)
	}
	return k
}

func BenchmarkHistoryOfAYear(b *testing.B) {
	for _, series := range []int{1, 100} {
		k := year(b, series)
		for _, points := range []int{0, 500} {
			b.Run(fmt.Sprintf("series=%d/points=%d", series, points), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					a, err := k.Show(b.Context(), curves.Question{From: "-365d", Points: points})
					if err = errors.Join(err, a.WriteJSON(io.Discard)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
