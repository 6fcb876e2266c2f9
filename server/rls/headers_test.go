package rls

import (
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

func TestHeadersSpeakOfTheStatusThatMattersMost(t *testing.T) {
	limited := new(descriptors.Limit)
	room := func(n uint64) limit.Status {
		return limit.Status{Limit: limited, Decision: backend.Decision{Remaining: n}}
	}
	over := limit.Status{Limit: limited, Over: true}
	quota := limit.Status{Limit: limited, Over: true, Quota: true}
	none, unlimited := limit.Status{}, limit.Status{Unlimited: true}
	for _, tc := range []struct {
		name     string
		statuses []limit.Status
		want     int // -1 for none
	}{
		{"what no limit applies to has nothing to show", []limit.Status{none, unlimited}, -1},
		{"the least room", []limit.Status{none, room(5), room(3), unlimited, room(4)}, 2},
		{"the first of equals", []limit.Status{room(5), room(3), room(3)}, 1},
		{"over goes before no room", []limit.Status{room(0), over, room(0)}, 1},
		{"a quota that is over has no room, and no more", []limit.Status{room(1), quota, over, quota}, 2},
		{"the first quota that is over", []limit.Status{room(1), quota, quota}, 1},
		{"the last that is over", []limit.Status{over, room(1), over, none}, 2},
	} {
		got := -1
		for i := range tc.statuses {
			if headerStatus(tc.statuses) == &tc.statuses[i] {
				got = i
			}
		}
		if got != tc.want {
			t.Errorf("%s: status %d is shown, want %d", tc.name, got, tc.want)
		}
	}
}

func TestRetryIsWhenTheLastDescriptorLetsTheRequestPass(t *testing.T) {
	over := func(d time.Duration) limit.Status {
		return limit.Status{Over: true, Decision: backend.Decision{RetryIn: d}}
	}
	quota := func(d time.Duration) limit.Status {
		return limit.Status{Over: true, Quota: true, Decision: backend.Decision{RetryIn: d}}
	}
	for want, statuses := range map[time.Duration][]limit.Status{
		7 * time.Second: {over(time.Second), {Decision: backend.Decision{RetryIn: time.Hour}}, over(7 * time.Second), over(2 * time.Second)},
		backend.Never:   {over(time.Second), over(backend.Never)},
		3 * time.Second: {over(time.Second), quota(5 * time.Second), quota(3 * time.Second), quota(backend.Never)},
		4 * time.Second: {over(4 * time.Second), quota(5 * time.Second), {Quota: true}},
	} {
		if got := retryIn(statuses); got != want {
			t.Errorf("%+v: %v, want %v", statuses, got, want)
		}
	}
}
