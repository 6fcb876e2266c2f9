package server

import (
	"fmt"
	"strings"
	"testing"

	quota "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/server/rlqs"
)

func TestOversizedReportIsRefused(t *testing.T) {
	r := start(t, setup{})
	r.configure(t)
	stream, err := quota.NewRateLimitQuotaServiceClient(r.conn).StreamRateLimitQuotas(t.Context())
	if err == nil {
		err = stream.Send(&quota.RateLimitQuotaUsageReports{Domain: strings.Repeat("x", rlqs.MaxMessage)})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil || !strings.Contains(err.Error(), fmt.Sprint(rlqs.MaxMessage)) {
		t.Errorf("a message of more than %d bytes: %v, want it refused by that number", rlqs.MaxMessage, err)
	}
	process.Eventually(t, "the bound is counted", func() error {
		if got := r.quotas.Totals(); got.Refused["message_bytes"] != 1 {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
}
