package collectortest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// collectorArgument as the first argument makes the test binary run as a collector.
const collectorArgument = "collector"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == collectorArgument {
		fmt.Fprintln(os.Stderr, runCollector("--config=file:"+os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// runCollector runs a collector that receives OTLP and writes files.
func runCollector(args ...string) error {
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: collectorArgument},
		Factories: func() (otelcol.Factories, error) {
			receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
			if err != nil {
				return otelcol.Factories{}, err
			}
			exporters, err := otelcol.MakeFactoryMap[exporter.Factory](fileexporter.NewFactory())
			return otelcol.Factories{Receivers: receivers, Exporters: exporters,
				Telemetry: telemetry.NewFactory(func() component.Config { return new(struct{}) })}, err
		},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()}, DefaultScheme: "file"}},
	})
	command.SetArgs(args)
	return command.Execute()
}

// collector is a process that receives OTLP by gRPC and by HTTP, and appends it to a file.
type collector struct {
	*process.Process
	grpc, http   string // host:port
	config, file string
}

const configuration = `
receivers: {otlp: {protocols: {grpc: {endpoint: "%s"}, http: {endpoint: "%s"}}}}
exporters: {file: {path: "%s", append: true, flush_interval: 100ms}}
service: {pipelines: {metrics: {receivers: [otlp], exporters: [file]}, traces: {receivers: [otlp], exporters: [file]}}}
`

func newCollector(t *testing.T) *collector {
	t.Helper()
	dir := t.TempDir()
	c := &collector{grpc: process.Addr(t), http: process.Addr(t), config: filepath.Join(dir, "collector.yaml"), file: filepath.Join(dir, "taken.json")}
	if err := os.WriteFile(c.config, fmt.Appendf(nil, configuration, c.grpc, c.http, c.file), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// start starts the collector, for the first time or after it was killed.
func (c *collector) start(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.Process = process.Run(t, collectorArgument, exec.Command(self, collectorArgument, c.config))
}

// series identifies a total: the weir that counts, and the labels.
type series struct{ instance, domain, path, outcome, value string }

// totals returns the last total of each series in the file. It fails the test if a total goes down or changes its start
// time: rates would count hits twice. It skips lines that a kill has cut off.
func (c *collector) totals(t *testing.T) map[series]int64 {
	t.Helper()
	text, err := os.ReadFile(c.file)
	if err != nil {
		return nil // it has not taken anything yet
	}
	last, since := make(map[series]int64), make(map[series]pcommon.Timestamp)
	for line := range bytes.Lines(text) {
		taken, err := new(pmetric.JSONUnmarshaler).UnmarshalMetrics(line)
		if err != nil {
			continue
		}
		for _, of := range taken.ResourceMetrics().All() {
			for _, scope := range of.ScopeMetrics().All() {
				for _, metric := range scope.Metrics().All() {
					if metric.Name() != "weir.hits" {
						continue
					}
					for _, p := range metric.Sum().DataPoints().All() {
						name := seriesOf(of.Resource().Attributes(), p.Attributes())
						if before, known := since[name]; p.IntValue() < last[name] || known && before != p.StartTimestamp() {
							t.Errorf("%v goes from %d since %v to %d since %v; want no less, since the same time", name,
								last[name], before, p.IntValue(), p.StartTimestamp())
						}
						last[name], since[name] = p.IntValue(), p.StartTimestamp()
					}
				}
			}
		}
	}
	return last
}

func seriesOf(process, point pcommon.Map) series {
	get := func(m pcommon.Map, key string) string {
		value, _ := m.Get(key)
		return value.Str()
	}
	return series{get(process, "service.instance.id"), get(point, "domain"), get(point, "path"), get(point, "outcome"), get(point, "value")}
}

// within returns the sum of a user's hits within the limit, counted by one instance or, if "", by all.
func within(all map[series]int64, instance, user string) (sum int64) {
	for name, n := range all {
		if name.outcome == "within" && name.value == user && (instance == "" || name.instance == instance) {
			sum += n
		}
	}
	return sum
}

// rule has a series for each user. Nobody reaches its limit.
const rule = "- {key: user, value_to_metric: true, rate_limit: {unit: hour, requests_per_unit: 100000000}}\n"

var users = []string{"ann", "bob", "cleo"}

// ask sends requests of each user continuously, and counts the answers.
func ask(t *testing.T, w *weirtest.Weir, counts []atomic.Int64) *weirtest.Load {
	var clients []*weirtest.Client
	for range users {
		clients = append(clients, w.Client(t))
	}
	return weirtest.StartLoad(t, len(users), func(worker int) error {
		if _, err := clients[worker].Ask("shop", weirtest.Describe("user", users[worker])); err != nil {
			return err
		}
		counts[worker].Add(1)
		return nil
	})
}

// TestSumsAreTheClientsCount kills the collector repeatedly under load, and in the end weir.
func TestSumsAreTheClientsCount(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t)
			endpoint := map[string]string{"grpc": c.grpc, "http/protobuf": c.http}[protocol]
			settings := []string{"OTEL_METRICS_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol, "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + endpoint,
				"OTEL_METRIC_EXPORT_INTERVAL=100", "OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "OTEL_EXPORTER_OTLP_TIMEOUT=2000", "HISTORY_FLUSH_INTERVAL=1s",
				"DRAIN_DELAY=0s", "TRACING_ENABLED=true", "TRACING_SAMPLING_RATE=0.01"}
			first := weirtest.Serve(t, rule, append(settings, "TRACING_SERVICE_INSTANCE_ID=first")...)
			counts := make([]atomic.Int64, len(users))
			load := ask(t, first, counts)
			for range 5 {
				c.start(t)
				seen := within(c.totals(t), "", "user=ann")
				weirtest.Eventually(t, "the collector takes more", func() error {
					if got := within(c.totals(t), "", "user=ann"); got <= seen {
						return fmt.Errorf("it has %d hits, as before", got)
					}
					return nil
				})
				load.Reach(t, 500)
				c.Kill()
				load.Reach(t, 500)
			}
			c.start(t)
			load.WantNoFailures(t, "no call fails while the collector is killed")
			wantAll := func(instance string) {
				t.Helper()
				weirtest.Eventually(t, "the sums are the clients' own counts", func() error {
					all := c.totals(t)
					for i, user := range users {
						if got, want := within(all, instance, "user="+user), counts[i].Load(); got != want {
							return fmt.Errorf("%d hits of %s, who made %d", got, user, want)
						}
					}
					return nil
				})
			}
			wantAll("first")

			// A killed weir loses only the hits that it had not exported.
			exported := counts[0].Load()
			client, failed := first.Client(t), make(chan error)
			go func() {
				for {
					if _, err := client.Ask("shop", weirtest.Describe("user", "ann")); err != nil {
						failed <- err
						return
					}
					counts[0].Add(1)
				}
			}()
			weirtest.Eventually(t, "ann asks on", func() error {
				if n := counts[0].Load(); n < exported+200 {
					return fmt.Errorf("she made %d requests, after %d", n, exported)
				}
				return nil
			})
			first.Kill()
			<-failed
			if got := within(c.totals(t), "first", "user=ann"); got < exported || got > counts[0].Load()+1 { // one may have had no answer
				t.Errorf("of the weir that was killed the collector has %d hits of ann; want from %d, which it had, to %d", got, exported, counts[0].Load())
			}
			second := weirtest.Serve(t, rule, append(settings, "TRACING_SERVICE_INSTANCE_ID=second")...)
			for i := range counts {
				counts[i].Store(0)
			}
			load = ask(t, second, counts)
			load.Reach(t, 1000)
			load.WantNoFailures(t, "no call fails")
			second.Drain(t) // which sends the last
			wantAll("second")
		})
	}
}
