package admin

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rlqs"
)

func TestQuotaValuesNeedTheReadToken(t *testing.T) {
	quotas := rlqs.New(limit.New(nil, limit.Options{}, hits.New(0)), rlqs.Options{Log: slog.New(slog.DiscardHandler)})
	port := httptest.NewServer(quotaHandler(quotas, &Access{Host: "192.0.2.1", ReadFile: "missing"}))
	defer port.Close()
	for query, want := range map[string]int{"": 200, "?domain=shop&n=5": 200, "?n=0": 400, "?m=1": 400, "?values=maybe": 400, "?values=true": 403} {
		answer, err := http.Get(port.URL + query)
		if err != nil {
			t.Fatal(err)
		}
		var a QuotaAnswer
		err = json.NewDecoder(answer.Body).Decode(&a)
		answer.Body.Close()
		if answer.StatusCode != want || want == 200 && (err != nil || a.Buckets == nil) {
			t.Errorf("%q: %s, %+v, %v; want %d", query, answer.Status, a, err, want)
		}
	}
	if w := get(serving(Parts{}), "/api/v1/quota"); w.Code != 404 || !strings.Contains(w.Body.String(), "RLQS_ENABLED=true") {
		t.Errorf("without quotas: %d %s, want 404 and what turns them on", w.Code, w.Body)
	}
	if text, _ := json.Marshal(rlqs.Bucket{}); strings.Contains(string(text), "escriptor") {
		t.Errorf("without values a bucket tells its descriptor: %s", text)
	}
}
