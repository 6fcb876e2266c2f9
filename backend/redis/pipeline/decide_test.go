package pipeline

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// The server never greets, so nobody is answered. The clock is the test's.
func TestCallersLeaveEachInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := goredis.NewClient(&goredis.Options{
			Addr: "silent:1", MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				time.Sleep(2 * time.Second)
				return nil, errors.New("no greeting")
			},
		})
		p, start := newSums(client, time.Second), time.Now()
		var callers sync.WaitGroup
		for _, caller := range []struct{ has, leaves time.Duration }{
			{5 * time.Millisecond, 3 * time.Millisecond}, {20 * time.Millisecond, 18 * time.Millisecond},
			{200 * time.Millisecond, 180 * time.Millisecond}, {time.Minute, time.Second},
		} {
			callers.Go(func() {
				err := decide(p, caller.has, "key")
				if took := time.Since(start); !errors.Is(err, ErrUnavailable) || took != caller.leaves {
					t.Errorf("a caller with %v got %v after %v; want to leave after %v", caller.has, err, took, caller.leaves)
				}
			})
		}
		callers.Wait()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // until the last dial is over
	})
}
