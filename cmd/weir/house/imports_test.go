package house_test

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const modulePath = "github.com/weirproxy/weir/"

// roomRule says what a package may reach: by its own imports, and through weir's packages that it imports. Packages are
// written as go does: "server" is one package, "server/..." also all below it, "..." any.
type roomRule struct {
	packages  string
	weir      []string // weir's own packages
	libraries []string // others' libraries; the standard library is free to all
	why       string
}

var anyLibrary = []string{"..."}

// roomRules is read from the top; the first that fits a package holds.
var roomRules = []roomRule{
	{"descriptors", nil, nil,
		"everything speaks its vocabulary, so whatever it imported would be everywhere"},
	{"descriptors/yaml", []string{"descriptors"}, []string{"go.yaml.in/yaml/..."},
		"it reads and judges files, and nothing else"},
	{"descriptors/...", []string{"descriptors/..."}, anyLibrary,
		"a source of configuration knows the vocabulary, not who uses it"},
	{"backend", []string{"descriptors"}, nil,
		"it is the contract between the request path and the stores, and nothing else"},
	{"backend/window", []string{"descriptors", "backend"}, nil,
		"it is pure arithmetic, the oracle of every store, and decides in the words of the contract"},
	{"backend/history", []string{"descriptors"}, nil,
		"it is pure arithmetic, the oracle of every history store"},
	{"backend/outbound", []string{"descriptors", "backend"}, nil,
		"it knows queues, breakers and deadlines, not what is asked of which kind of server"},
	{"backend/memory", []string{"descriptors", "backend", "backend/window"}, nil,
		"the embedded default works without any service or library"},
	{"backend/history/redishistory", []string{"descriptors", "backend", "backend/history",
		"backend/outbound", "backend/redis/topology", "backend/redis/pipeline"}, anyLibrary, "it knows how servers are reached, not how weir counts there"},
	{"backend/redis/topology", nil, anyLibrary,
		"it knows which server owns a key, not what is asked there"},
	{"backend/redis/pipeline", []string{"descriptors", "backend", "backend/outbound", "backend/redis/topology"}, anyLibrary,
		"it knows how a question reaches a server, not what it is"},
	{"backend/redis/...",
		[]string{"descriptors", "backend", "backend/outbound", "backend/window", "backend/ratelimit", "backend/redis/..."}, anyLibrary,
		"a store knows its contract, not another store and not who asks it"},
	{"backend/memcached", []string{"descriptors", "backend", "backend/outbound", "backend/window", "backend/ratelimit"}, nil,
		"a store knows its contract, not another store and not who asks it"},
	{"backend/history/transfer", []string{"descriptors", "backend/history"}, anyLibrary,
		"it moves hits from any store to any other, and knows none"},
	{"backend/history/export", []string{"descriptors", "backend/history"}, nil,
		"it brings hits to any history store, and knows none"},
	{"backend/backendtest/process", nil, nil,
		"every test that starts a program uses it, whatever that program is"},
	{"backend/backendtest/memcachedtest",
		[]string{"descriptors", "backend", "backend/backendtest/process", "backend/backendtest/redistest",
			"backend/backendtest/certstest"}, anyLibrary,
		"it starts memcached as redistest starts Redis, with certificates that are made there"},
	{"backend/backendtest/fixture", []string{"descriptors", "descriptors/yaml", "backend", "backend/window", "backend/memory"}, anyLibrary,
		"it sets up what tests of any room begin with"},
	{"backend/backendtest/...", []string{"descriptors", "backend", "backend/window", "backend/history",
		"backend/backendtest/process", "backend/backendtest/certstest"}, anyLibrary,
		"it tests any store by its contract, and starts the servers of those that have one"},
	{"backend/...", []string{"descriptors", "backend", "backend/window", "backend/history"}, anyLibrary,
		"a store knows its contract, not another store and not who asks it"},
	{"server/limit", []string{"descriptors", "backend", "backend/history", "server/byrule", "server/hits/...", "server/ratelimit/rulestats", "server/denials"}, nil,
		"the request path knows no wire format and no metrics library, so that each can change without it"},
	{"server/byrule", []string{"descriptors"}, nil,
		"it finds what is kept for a rule, and does not know what that is"},
	{"server/ratelimit/rulestats", []string{"descriptors", "backend", "backend/history"}, nil,
		"it is on the request path, where an atomic add is all that is paid for"},
	{"server/ratelimit/...", []string{"descriptors", "backend", "backend/history", "server/limit", "server/byrule", "server/hits/...", "server/denials",
		"server/connlimit", "server/ratelimit/..."}, anyLibrary, "it is all of envoyproxy/ratelimit's statistics, and no other room knows their names"},
	{"server/hits/heavy", nil, nil,
		"it is a pure algorithm, and knows neither what its keys are nor the time"},
	{"server/hits", []string{"descriptors", "backend", "backend/history", "server/byrule", "server/hits/heavy", "server/ratelimit/rulestats"}, nil,
		"it is on the request path, where an atomic add and a look into a sketch are all that is paid for"},
	{"server/denials", []string{"descriptors", "backend", "server/byrule"}, nil,
		"it is on the request path, where a copy that nobody waits for is all that is paid for"},
	{"server/page", nil, nil,
		"it is files for a browser, which asks the port for what they show"},
	{"server/history", []string{"descriptors", "backend/history", "backend/history/transfer"}, anyLibrary,
		"it answers a command as well as a port, so it knows neither"},
	{"server/admin", []string{"descriptors", "backend", "backend/history", "backend/history/transfer", "server/history",
		"server/limit", "server/rlqs", "server/byrule", "server/hits/...", "server/ratelimit/rulestats", "server/denials", "server/connlimit", "server/page"}, anyLibrary, "the rooms of the server do not know each other: package server joins them"},
	{"server/promql/engine", []string{"descriptors", "backend/history"}, anyLibrary,
		"it evaluates over any history, and knows neither its store nor who asks"},
	{"server/promql", []string{"descriptors", "backend/history", "backend/history/transfer", "server/history", "server/connlimit", "server/promql/engine"}, anyLibrary,
		"it is Prometheus's API over the history, with all of Prometheus behind it"},
	{"server/connlimit", nil, nil,
		"it knows connections, and nothing of what they ask"},
	{"server", []string{"descriptors", "backend", "backend/history", "backend/history/transfer", "server/history", "server/limit", "server/rls", "server/rlqs",
		"server/byrule", "server/hits/...", "server/ratelimit/rulestats", "server/denials", "server/page", "server/admin",
		"server/connlimit"}, anyLibrary,
		"it gets its store as the contract: which one it is, cmd/weir decides"},
	{"server/stats/...", []string{"descriptors", "backend", "backend/history", "server/limit", "server/byrule", "server/hits/...", "server/ratelimit/rulestats", "server/denials", "server/connlimit",
		"server/stats/..."}, anyLibrary, "the rooms of the server do not know each other: package server joins them"},
	{"server/...", []string{"descriptors", "backend", "backend/history", "server/limit", "server/byrule", "server/hits/...", "server/ratelimit/rulestats", "server/denials"},
		anyLibrary,
		"the rooms of the server do not know each other: package server joins them"},
	{"cmd/weir/wait", nil, nil, "every command may use it"},
	{"cmd/weir/certs/...", []string{"cmd/weir/certs"}, nil, "it knows files and TLS, not who speaks it"},
	{"cmd/weir/adminport", nil, nil, "it knows how the admin port is asked, not what"},
	{"cmd/weir/terminal", nil, []string{"golang.org/x/term"}, "it knows what a terminal shows, not what is to be shown"},
	{"cmd/weir/callcmd", []string{"descriptors", "cmd/weir/certs", "cmd/weir/terminal", "cmd/weir/wait"}, anyLibrary,
		"it is a client, which asks any rate-limit service as Envoy does"},
	{"cmd/weir/config", []string{"descriptors/...", "backend/...", "server/...", "cmd/weir/certs"}, anyLibrary,
		"it turns the environment into what the parts are configured by, and does not run them"},
	{"cmd/weir/ratelimit", []string{"descriptors/...", "backend/...", "server/...", "cmd/weir/certs", "cmd/weir/config"}, anyLibrary,
		"it makes weir's settings of another program's environment, and nothing else knows of that program"},
	{"cmd/weir/...", []string{"descriptors/...", "backend/...", "server/...", "cmd/weir/..."}, anyLibrary,
		"it puts the parts together, and nothing imports it"},
}

// libraryRules names those that must not spread, and the only rooms that may import them.
var libraryRules = []struct {
	paths []string
	rooms []string
	why   string
}{
	{[]string{"google.golang.org/grpc/...", "google.golang.org/protobuf/...", "google.golang.org/genproto/...",
		"github.com/envoyproxy/go-control-plane/..."},
		[]string{"server/...", "descriptors/xds/...", "cmd/weir/..."},
		"wire formats stay at the edge, where they are turned into weir's own types"},
	{[]string{"github.com/envoyproxy/go-control-plane/pkg/..."},
		nil,
		"it is the server's side of xDS, with all of Envoy's API, which only tests need"},
	{[]string{"github.com/kelseyhightower/envconfig"},
		[]string{"cmd/weir/config"},
		"what people configure is read in one place"},
	{[]string{"github.com/alecthomas/kong"},
		[]string{"cmd/weir", "cmd/weir/callcmd", "cmd/weir/historycmd", "cmd/weir/simulatecmd"},
		"flags belong to commands"},
	{[]string{"github.com/go-analyze/charts"},
		[]string{"cmd/weir/simulatecmd"},
		"what answers Envoy has no use for pictures"},
	{[]string{"github.com/jotaen/kong-completion"},
		[]string{"cmd/weir"},
		"flags belong to commands"},
	{[]string{"github.com/prometheus/prometheus/..."},
		[]string{"server/promql/..."},
		"Prometheus's engine answers questions about the past, and nothing that answers Envoy is to depend on it"},
	{[]string{"github.com/prometheus/..."},
		[]string{"server", "server/stats/...", "server/ratelimit/...", "server/promql/...", "cmd/weir/..."},
		"metrics are made in one place, from counts that the request path keeps without a library"},
	{[]string{"go.opentelemetry.io/..."},
		[]string{"server/trace", "server/stats/otlp/...", "cmd/weir/..."},
		"nothing that answers Envoy knows how it is traced: it has one hook, which is free while nobody traces"},
	{[]string{"github.com/redis/go-redis/..."},
		[]string{"backend/redis/...", "backend/backendtest/..."},
		"it repeats commands in ways that count twice; the code that knows how to stop it is in one place"},
}

func checkLibraries(f *sourceFile) (broken []string) {
	for _, spec := range f.tree.Imports {
		for _, l := range libraryRules {
			if coversAny(l.paths, importPath(spec)) && !coversAny(l.rooms, f.room) {
				broken = append(broken, f.broken(spec.Pos(), "%s imports %s, which only %s may: %s",
					f.room, importPath(spec), enumerate(l.rooms), l.why))
			}
		}
	}
	return broken
}

// checkEnvironment finds the functions through which a setting could slip past cmd/weir.
func checkEnvironment(f *sourceFile) (broken []string) {
	if coversAny([]string{"cmd/weir/...", "backend/backendtest/..."}, f.room) {
		return nil
	}
	for _, spec := range f.tree.Imports {
		name := importPath(spec)
		if name != "os" && name != "syscall" {
			continue
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		broken = append(broken, f.find(func(n ast.Node) string {
			if !selects(n, name, "Getenv", "LookupEnv", "Environ", "ExpandEnv") {
				return ""
			}
			return "it reads the environment, which only cmd/weir does: a setting read elsewhere is in no table and cannot be tested"
		})...)
	}
	return broken
}

// covers reports whether a pattern ("server", "server/...", "...") stands for a package.
func covers(pattern, pkg string) bool {
	if pattern == "..." {
		return true
	}
	below, open := strings.CutSuffix(pattern, "/...")
	return pkg == below || open && strings.HasPrefix(pkg, below+"/")
}

func coversAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, pkg) })
}

// isStandard reports whether an import is of the standard library: only others' paths begin with a host's name.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

func importPath(spec *ast.ImportSpec) string {
	unquoted, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
	return unquoted
}

func enumerate(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// checkReach holds each package to what it may reach. It walks to the nearest first, so that each complaint names the
// shortest way.
func checkReach(files []*sourceFile) (broken []string) {
	imports := make(map[string][]string) // of each package, by its import path
	for _, f := range slices.DeleteFunc(slices.Clone(files), tests) {
		of := imports[modulePath+f.room]
		for _, spec := range f.tree.Imports {
			of = append(of, importPath(spec))
		}
		imports[modulePath+f.room] = of
	}
	for _, pkg := range slices.Sorted(maps.Keys(imports)) {
		room := strings.TrimPrefix(pkg, modulePath)
		at := slices.IndexFunc(roomRules, func(r roomRule) bool { return covers(r.packages, room) })
		if at < 0 {
			broken = append(broken, fmt.Sprintf("package %s is in no room that the table of rooms knows: say there what it may "+
				"import, and why, so that the parts stay apart", room))
			continue
		}
		reachedFrom := map[string]string{pkg: ""}
		for next := []string{pkg}; len(next) > 0; next = next[1:] {
			for _, name := range imports[next[0]] {
				if _, met := reachedFrom[name]; met || isStandard(name) {
					continue
				}
				reachedFrom[name] = next[0]
				next = append(next, name)
				if complaint := roomRules[at].judge(name); complaint != "" {
					way := name
					for by := reachedFrom[name]; by != ""; by = reachedFrom[by] {
						way = by + " imports " + way
					}
					broken = append(broken, strings.ReplaceAll(way, modulePath, "")+", "+complaint)
				}
			}
		}
	}
	return broken
}

// judge returns why a room may not reach a package, "" if it may.
func (r *roomRule) judge(name string) string {
	own, isOwn := strings.CutPrefix(name, modulePath)
	switch {
	case own == "descriptors/regular", own == "backend/throttle": // which are the standard library's os.ReadFile and slog, without their traps
	case isOwn && !coversAny(r.weir, own):
		return "but of weir's packages it may reach only " + enumerate(r.weir) + ": " + r.why
	case !isOwn && !coversAny(r.libraries, name):
		return "but of libraries it may reach only the standard one and " + enumerate(r.libraries) + ": " + r.why
	}
	return ""
}

// namedLibraries are those that the owner of the project has named: no other stands in the place of one.
var namedLibraries = []string{"github.com/envoyproxy/go-control-plane", "google.golang.org/grpc", "github.com/redis/go-redis/v9",
	"github.com/kelseyhightower/envconfig"}

func checkNamed(files []*sourceFile) (broken []string) {
	for _, library := range namedLibraries {
		imports := func(spec *ast.ImportSpec) bool {
			name, _ := strconv.Unquote(spec.Path.Value)
			return name == library || strings.HasPrefix(name, library+"/")
		}
		if !slices.ContainsFunc(files, func(f *sourceFile) bool { return product(f) && slices.ContainsFunc(f.tree.Imports, imports) }) {
			broken = append(broken, "nothing imports "+library+", which the owner has named")
		}
	}
	return broken
}
