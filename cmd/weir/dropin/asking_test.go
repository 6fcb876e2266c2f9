package dropin_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	metricpb "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// eventually polls until check is content.
func eventually(t *testing.T, promise string, check func() error) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		asked := time.Now()
		err := check()
		if err == nil {
			return
		}
		if asked.Sub(began) > hang {
			t.Fatalf("not within %v: %s: %v", hang, promise, err)
		}
	}
}

// patient gives up before the tests' own time is over, so that a process which hangs is named.
var patient = &http.Client{Timeout: hang}

// get returns what a URL answers with 200.
func get(url string) (string, error) {
	answer, err := patient.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, answer.Status, text)
	}
	return string(text), err
}

// wantStatus asks a URL and complains unless the answer has that status.
func wantStatus(url string, status int) error {
	answer, err := patient.Get(url)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != status {
		return fmt.Errorf("%s answers %d, want %d", url, answer.StatusCode, status)
	}
	return nil
}

// scrape returns what a URL answers, as Prometheus reads it.
func scrape(url string) (map[string]*metricpb.MetricFamily, error) {
	text, err := get(url)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(strings.NewReader(text))
}

// count returns the value of the counter with just these labels, name, value and so on, and whether it is there.
func count(families map[string]*metricpb.MetricFamily, name string, labels ...string) (float64, bool) {
	for _, m := range families[name].GetMetric() {
		var has []string
		for _, l := range m.Label {
			has = append(has, l.GetName(), l.GetValue())
		}
		if slices.Equal(has, labels) {
			return m.GetCounter().GetValue(), true
		}
	}
	return 0, false
}

// dial returns a connection to weir for calls as Envoy makes them, without Envoy's care: it watches no health and repeats
// nothing.
func dial(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableHealthCheck(), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig())
	if err != nil {
		t.Fatalf("making a client of %s: %v", addr, err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ratelimit returns a client on a connection of its own.
func ratelimit(t *testing.T, addr string) rlspb.RateLimitServiceClient {
	t.Helper()
	return rlspb.NewRateLimitServiceClient(dial(t, addr))
}

// describe returns a descriptor of these entries, key, value and so on.
func describe(entries ...string) *descriptorpb.RateLimitDescriptor {
	d := &descriptorpb.RateLimitDescriptor{}
	for pair := range slices.Chunk(entries, 2) {
		d.Entries = append(d.Entries, &descriptorpb.RateLimitDescriptor_Entry{Key: pair[0], Value: pair[1]})
	}
	return d
}

// ask asks for one hit of each descriptor, and returns the verdict on all and on each, such as "OK: OVER_LIMIT OK".
func ask(client rlspb.RateLimitServiceClient, domain string, descriptors ...*descriptorpb.RateLimitDescriptor) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	answer, err := client.ShouldRateLimit(ctx, &rlspb.RateLimitRequest{Domain: domain, Descriptors: descriptors})
	if err != nil {
		return "", err
	}
	var all bytes.Buffer
	fmt.Fprint(&all, answer.OverallCode, ":")
	for _, s := range answer.Statuses {
		fmt.Fprint(&all, " ", s.Code)
	}
	return all.String(), nil
}

// counted returns the sum of the counts in Redis whose keys begin so: there is one for each window.
func counted(t *testing.T, server *redistest.Server, stem string) int {
	t.Helper()
	keys, err := server.Client().Keys(t.Context(), stem+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, key := range keys {
		n, err := server.Client().Get(t.Context(), key).Int()
		if err != nil {
			t.Fatalf("the count at %s: %v", key, err)
		}
		sum += n
	}
	return sum
}

// awaitRoomInHour waits where the hour is nearly over: what is limited by the hour is to be of one.
func awaitRoomInHour() {
	hour := int64(time.Hour / time.Second)
	if left := hour - time.Now().Unix()%hour; left < 20 {
		time.Sleep(time.Duration(left) * time.Second)
	}
}

// containsLine reports whether a text has this line, which ends with a newline.
func containsLine(text, line string) bool {
	return slices.Contains(strings.SplitAfter(text, "\n"), line)
}
