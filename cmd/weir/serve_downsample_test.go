package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
)

func TestServeDownsamplesAndLogsOnlyWhatMatters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := filehistory.InMemory(filehistory.Config{Keep: history.DefaultKeep()})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		id := history.ID{Domain: "shop", Path: "user"}
		old := history.Increment{ID: id, Minute: time.Now().Unix()/60 - 100*1440, Hits: 5}
		if _, err := store.Apply(t.Context(), id.Partition(), history.Batch{Writer: "test", Seq: 1, Increments: []history.Increment{old}}); err != nil {
			t.Fatal(err)
		}
		log := &bytes.Buffer{}
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { keepDownsampled(ctx, store, time.Minute, slog.New(slog.NewTextHandler(log, nil))) })
		pass := func() {
			time.Sleep(4 * time.Minute) // two runs at least
			synctest.Wait()
		}
		pass()
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "downsampled the history") {
			t.Errorf("the log of one run that moved something, and others that did not, is\n%s", got)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		pass()
		if got := log.String(); !strings.Contains(got, "downsampling the history failed; the next run tries again") {
			t.Errorf("without a history the log is\n%s", got)
		}
		end()
		running.Wait()
	})
}
