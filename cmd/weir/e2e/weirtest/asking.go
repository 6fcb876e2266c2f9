package weirtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// Eventually is process.Eventually.
var Eventually = process.Eventually

// Patient gives up before the tests' own time is over, so that a process which hangs is named.
var Patient = &http.Client{Timeout: process.Hang, Transport: &http.Transport{}}

// Fetch returns what a URL answers, and its status.
func Fetch(url string) (body string, status int, err error) {
	answer, err := Patient.Get(url)
	if err != nil {
		return "", 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), answer.StatusCode, err
}

// Get returns what a URL answers with 200.
func Get(url string) (string, error) {
	text, status, err := Fetch(url)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s answers %d: %s", url, status, text)
	}
	return text, err
}

// GetJSON decodes what a URL answers with 200.
func GetJSON(url string, into any) error {
	text, err := Get(url)
	if err == nil {
		err = json.Unmarshal([]byte(text), into)
	}
	return err
}

// WantStatus asks a URL and complains unless the answer has that status.
func WantStatus(url string, want int) error {
	text, status, err := Fetch(url)
	if err == nil && status != want {
		err = fmt.Errorf("%s answers %d, want %d: %s", url, status, want, text)
	}
	return err
}

// Client asks weir as Envoy does, without Envoy's care: it watches no health and repeats nothing.
type Client struct {
	*grpc.ClientConn
	rlspb.RateLimitServiceClient
}

// Client returns a client on a connection of its own.
func (w *Weir) Client(t testing.TB) *Client {
	t.Helper()
	return Dial(t, w.GRPC)
}

// Dial returns a client of whoever listens on host:port, in plaintext unless an option says otherwise.
func Dial(t testing.TB, addr string, options ...grpc.DialOption) *Client {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableHealthCheck(), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig()}, options...)...)
	if err != nil {
		t.Fatalf("making a client of %s: %v", addr, err)
	}
	t.Cleanup(func() { conn.Close() })
	return &Client{conn, rlspb.NewRateLimitServiceClient(conn)}
}

// Ask sends a request, of which each descriptor must be answered.
func (c *Client) Ask(domain string, descriptors ...*descriptorpb.RateLimitDescriptor) (*rlspb.RateLimitResponse, error) {
	answer, err := c.Forward(&rlspb.RateLimitRequest{Domain: domain, Descriptors: descriptors})
	if err == nil && len(answer.Statuses) != len(descriptors) {
		return nil, fmt.Errorf("%d descriptors were answered with %d statuses", len(descriptors), len(answer.Statuses))
	}
	return answer, err
}

// Forward sends a request as it is.
func (c *Client) Forward(request *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), process.Hang)
	defer cancel()
	return c.ShouldRateLimit(ctx, request)
}

// Hit asks for one hit of a user under a plan of domain shop.
func (c *Client) Hit(plan, user string) (*rlspb.RateLimitResponse_DescriptorStatus, error) {
	return c.one(Describe("plan", plan, "user", user))
}

// Look asks without counting.
func (c *Client) Look(plan, user string) (*rlspb.RateLimitResponse_DescriptorStatus, error) {
	d := Describe("plan", plan, "user", user)
	d.HitsAddend = wrapperspb.UInt64(0)
	return c.one(d)
}

func (c *Client) one(d *descriptorpb.RateLimitDescriptor) (*rlspb.RateLimitResponse_DescriptorStatus, error) {
	answer, err := c.Ask("shop", d)
	if err != nil {
		return nil, err
	}
	return answer.Statuses[0], nil
}

// Describe returns a descriptor of these entries, key, value and so on.
func Describe(entries ...string) *descriptorpb.RateLimitDescriptor {
	d := &descriptorpb.RateLimitDescriptor{}
	for pair := range slices.Chunk(entries, 2) {
		d.Entries = append(d.Entries, &descriptorpb.RateLimitDescriptor_Entry{Key: pair[0], Value: pair[1]})
	}
	return d
}

// AwaitRoomInHour waits where the hour is nearly over: what is limited by the hour is to be of one.
func AwaitRoomInHour() {
	if left := time.Hour - time.Since(time.Now().Truncate(time.Hour)); left < time.Minute {
		time.Sleep(left)
	}
}

// Metrics are the samples of a scrape, by name with labels as they are written: name{label="value"}.
type Metrics map[string]float64

// Scrape reads what a URL answers to Prometheus.
func Scrape(url string) (Metrics, error) {
	text, err := Get(url)
	if err != nil {
		return nil, err
	}
	m := make(Metrics)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if m[line[:at]], err = strconv.ParseFloat(line[at+1:], 64); err != nil {
			return nil, fmt.Errorf("reading the metric %q: %w", line, err)
		}
	}
	return m, nil
}

// Scrape reads what weir answers to Prometheus.
func (w *Weir) Scrape() (Metrics, error) { return Scrape(w.Admin + "/metrics") }

// Sum adds all series of a metric whose labels hold a text.
func (m Metrics) Sum(name, label string) (sum float64) {
	for series, value := range m {
		if of, labels, _ := strings.Cut(series, "{"); of == name && strings.Contains(labels, label) {
			sum += value
		}
	}
	return sum
}
