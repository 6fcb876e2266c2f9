package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/weirproxy/weir/backend/history"
	historyapi "github.com/weirproxy/weir/server/history"
)

// exported asks for an export of an admin port that listens.
func exported(t *testing.T, h *historyapi.History, query string) (*http.Response, string, error) {
	t.Helper()
	port := httptest.NewServer(serving(Parts{History: h}))
	defer port.Close()
	response, err := http.Get(port.URL + "/api/v1/history/export?" + query)
	if err != nil {
		return &http.Response{}, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, string(body), err
}

// sorted returns the lines of a text in order: series come in any.
func sorted(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func TestExportHasAllStoredHits(t *testing.T) {
	k := threeMonths(t)
	for _, c := range []struct{ query, want string }{
		{"domain=mail", "domain,path,outcome,value,start,width,sum,peak\nmail,from,over,,1791763200,86400,9,9\nmail,from,over,,1795262280,60,6,6\n"},
		{"path=user/path%3D/pay&outcome=over&format=csv",
			"domain,path,outcome,value,start,width,sum,peak\nshop,user/path=%2Fpay,over,,1795262340,60,4,4\n"},
		{"path=user/path%3D/pay&outcome=within&to=2026-11-19T12:00:00Z",
			"domain,path,outcome,value,start,width,sum,peak\nshop,user/path=%2Fpay,within,,1788307200,86400,17,17\nshop,user/path=%2Fpay,within,,1793534400,3600,13,13\n"},
		{"path=user/path%3D/pay&outcome=within&from=2026-11-19T12:00:01Z&to=2026-11-21T11:59:00Z",
			"domain,path,outcome,value,start,width,sum,peak\nshop,user/path=%2Fpay,within,,1795258860,60,5,5\n"},
		{"domain=mail&format=openmetrics", "# HELP weir_hits Hits by outcome.\n# TYPE weir_hits counter\n" +
			`weir_hits_total{domain="mail",path="from",outcome="over"} 0 1791763200` + "\n" +
			`weir_hits_total{domain="mail",path="from",outcome="over"} 9 1791849600` + "\n# EOF\n"},
		{"domain=mail&format=openmetrics&from=-1h&to=-0m", "# HELP weir_hits Hits by outcome.\n# TYPE weir_hits counter\n" +
			`weir_hits_total{domain="mail",path="from",outcome="over"} 9 1795262280` + "\n" +
			`weir_hits_total{domain="mail",path="from",outcome="over"} 15 1795262340` + "\n# EOF\n"},
		{"outcome=near&format=openmetrics", "# EOF\n"},
	} {
		response, body, err := exported(t, k.History, c.query)
		if err != nil || response.StatusCode != 200 || sorted(body) != sorted(c.want) {
			t.Errorf("the export of %s is %s (%v)\n%swant\n%s", c.query, response.Status, err, body, c.want)
		}
		var done historyapi.Exported
		text, _ := url.QueryUnescape(response.Trailer.Get(ExportTrailer))
		if err := json.Unmarshal([]byte(text), &done); err != nil || done.LeftOut != 0 || done.To == 0 {
			t.Errorf("the export of %s ends with %q, want that it is whole", c.query, text)
		}
	}
	response, _, _ := exported(t, k.History, "path=/pay")
	if text, _ := url.QueryUnescape(response.Trailer.Get(ExportTrailer)); !strings.Contains(text, `"found":false`) {
		t.Errorf("an export of a part of a path ends with %s, want that nothing has that path", text)
	}
}

// failing is a store that shows some of its series, and then fails.
type failing struct {
	history.Store
	after int
	with  history.Series
}

func (f *failing) Query(ctx context.Context, q history.Query, yield func(history.Series) error) error {
	left := f.after
	err := f.Store.Query(ctx, q, func(s history.Series) error {
		if left--; left < 0 {
			return errors.New("the disk is gone")
		}
		return yield(s)
	})
	if err == nil && f.with.Err != nil {
		err = yield(f.with)
	}
	return err
}

func TestFailingExportIsCutOff(t *testing.T) {
	k := threeMonths(t)
	h := historyapi.New(&failing{Store: k.store, after: 2}, 0, func() time.Time { return k.now })
	response, body, err := exported(t, h, "to=-0m&format=openmetrics")
	if err == nil || response.Trailer.Get(ExportTrailer) != "" || strings.Contains(body, "# EOF") {
		t.Errorf("an export that failed is %s, %q and %v: want that nobody takes it for whole", response.Status, body, err)
	}
	h = historyapi.New(&failing{Store: k.store}, 0, func() time.Time { return k.now })
	if response, body, _ := exported(t, h, ""); response.StatusCode != 503 || !strings.Contains(body, "the disk is gone") {
		t.Errorf("an export that failed at once is %s %s, want 503 and why", response.Status, body)
	}
}

func TestExportLeavesUnreadableSeriesOut(t *testing.T) {
	k := threeMonths(t)
	odd := history.ID{Domain: "shop", Path: "user", Value: "a\r\nb", Outcome: history.Over}
	k.add(t, hit{odd, noon.Unix(), 3})
	damaged := &failing{Store: k.store, after: 100, with: history.Series{ID: bobWithin, Err: errors.New("row 1234 is damaged")}}
	h := historyapi.New(damaged, 0, func() time.Time { return k.now })
	response, body, err := exported(t, h, "")
	text, _ := url.QueryUnescape(response.Trailer.Get(ExportTrailer))
	if err != nil || strings.Contains(body, "\r") || !strings.Contains(text, `"left_out":2`) ||
		!strings.Contains(text, "holds a carriage return") || !strings.Contains(text, "2 are left out in all") {
		t.Errorf("an export beside damage ends with %s (%v), want that two series are left out, and why", text, err)
	}
}

// seldom is a store where a minute and more goes by between two series that are asked for.
type seldom struct{ history.Store }

func (s seldom) Query(ctx context.Context, q history.Query, yield func(history.Series) error) error {
	return s.Store.Query(ctx, q, func(one history.Series) error {
		select {
		case <-time.After(100 * time.Second):
			return yield(one)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

func TestSlowStoreDoesNotEndAnExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := threeMonths(t)
		h := historyapi.New(seldom{k.store}, 0, func() time.Time { return k.now })
		line := bufconn.Listen(1 << 10) // its time is that of the test
		server := &http.Server{Handler: serving(Parts{History: h}),
			ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(line) })
		defer serving.Wait()
		defer server.Close()
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return line.DialContext(ctx) }
		client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
		const lost = "where the store is slow an export ends with %v, want that it is whole: its reader has not failed"
		response, err := client.Get("http://localhost/api/v1/history/export?format=openmetrics")
		if err != nil {
			t.Fatalf(lost, err)
		}
		defer response.Body.Close()
		if _, err = io.ReadAll(response.Body); err != nil || response.Trailer.Get(ExportTrailer) == "" {
			t.Errorf(lost, err)
		}
	})
}
