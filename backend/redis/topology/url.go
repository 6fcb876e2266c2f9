package topology

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"slices"
	"strconv"
	"strings"
)

// target is one server as a URL names it.
type target struct {
	// name is the address without scheme and credentials. A ring hashes it, so a new password moves no keys.
	name           string
	network, addr  string
	user, password string
	db             int
	tls            bool
}

// parseSingle reads host:port, redis://, rediss:// or the path of a unix socket. A socket type, if any, must fit. A
// name with a slash or a dot and no port is a relative path if the socket type is unix.
func parseSingle(url, socketType string) (target, error) {
	if strings.Contains(url, ",") && !strings.Contains(url, "://") {
		return target{}, errors.New("it names several servers, but the type is single: write one, or use ring or cluster")
	}
	url = strings.TrimSpace(url)
	if socketType == "unix" && strings.ContainsAny(url, "/.") && !strings.Contains(url, ":") {
		return target{name: url, network: "unix", addr: url}, nil
	}
	t, err := parseTarget(url)
	if err != nil {
		return t, err
	}
	if socketType == "unix" && t.network == "tcp" {
		return t, fmt.Errorf("the socket type is unix, but %s is not the path of a socket: use tcp, or /path/to/socket", t.name)
	}
	if socketType == "tcp" && t.network == "unix" {
		return t, fmt.Errorf("the socket type is tcp, but %s is the path of a unix socket: use unix, or host:port", t.name)
	}
	return t, nil
}

var errNode = errors.New("a sentinel or node of a cluster is host:port, without socket or database; rediss:// is for all " +
	"nodes of a cluster or none, and not for sentinels")

// parseSentinel reads primary,host:port,… Sentinels may be URLs; the credentials of one are used for all.
func parseSentinel(url string) (primary string, sentinels []target, err error) {
	items := splitList(url)
	if len(items) < 2 {
		return "", nil, errors.New("sentinels are written as the name of the primary and one sentinel or more: " +
			"name,host:port,host:port")
	}
	if strings.ContainsAny(items[0], ":/@") {
		return "", nil, errors.New("item 1: it must be the name that the sentinels have for the primary, not an address: " +
			"name,host:port,host:port")
	}
	for i, item := range items[1:] {
		t, err := parseTarget(item)
		switch {
		case err != nil:
		case t.network == "unix" || t.db != 0 || t.tls: // TLS is on for the sentinels and the primary together
			err = errNode
		case strings.Contains(item, "://") && !strings.Contains(item, t.addr[strings.LastIndex(t.addr, ":"):]):
			err = errors.New("it has no port, which for sentinels is most often 26379")
		}
		if err != nil {
			return "", nil, fmt.Errorf("item %d: %w", i+2, err)
		}
		sentinels = append(sentinels, t)
	}
	return items[0], sentinels, nil
}

// parseCluster reads the addresses of nodes of one cluster, which must have the same credentials and TLS. It drops
// duplicates.
func parseCluster(url string) ([]target, error) {
	all, err := parseList(url)
	var nodes []target
	for i, n := range all {
		if slices.Contains(nodes, n) {
			continue
		}
		nodes = append(nodes, n)
		first := nodes[0]
		switch {
		case n.network == "unix" || n.db != 0 || n.tls != first.tls:
			return nil, fmt.Errorf("item %d: %w", i+1, errNode)
		case n.user != first.user || n.password != first.password:
			return nil, fmt.Errorf("item %d: all servers of a cluster have the same credentials: repeat them in each item", i+1)
		}
	}
	return nodes, err
}

// parseNodes reads the list of a ring's servers, each of which has its own share of the keys.
func parseNodes(list string) ([]target, error) {
	nodes, err := parseList(list)
	for i, n := range nodes {
		if at := slices.IndexFunc(nodes, func(other target) bool { return other.name == n.name }); at < i {
			return nil, fmt.Errorf("items %d and %d are both %s: name each server once", at+1, i+1, n.name)
		}
	}
	return nodes, err
}

// parseList reads a list of servers, separated by commas or line ends.
func parseList(list string) ([]target, error) {
	items := splitList(list)
	if len(items) == 0 {
		return nil, errors.New("there is no server in it: write host:port,host:port")
	}
	nodes := make([]target, 0, len(items))
	for i, item := range items {
		t, err := parseTarget(item)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		nodes = append(nodes, t)
	}
	return nodes, nil
}

// splitList returns the items of a list, trimmed, without empty ones: a comma or a line end may follow the last item.
func splitList(list string) []string {
	var items []string
	for item := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == '\n' }) {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// parseTarget reads one server. Its errors never quote a text that could be a password.
func parseTarget(s string) (target, error) {
	switch scheme, _, found := strings.Cut(s, "://"); {
	case s == "":
		return target{}, errors.New("it is empty: write host:port, redis://user:password@host:port or /path/to/socket")
	case found:
		return parseURL(s, strings.ToLower(scheme))
	case strings.HasPrefix(s, "/"):
		return target{name: s, network: "unix", addr: s}, nil
	case strings.Contains(s, "@"):
		return target{}, errors.New("credentials need a scheme before them: redis://user:password@host:port")
	default:
		return parseAddress(s)
	}
}

func parseAddress(s string) (target, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil && !strings.ContainsAny(s, ":@/") {
		return target{}, errors.New("it has no port: write host:6379, or /path/to/socket") // it may be a password
	}
	if err != nil || strings.ContainsAny(host, "@/ ") || !isPort(port) {
		return target{}, errors.New("it is not an address: write host:port, with IPv6 as [::1]:6379")
	}
	if host == "" {
		s = "localhost" + s
	}
	return target{name: s, network: "tcp", addr: s}, nil
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// parseURL reads redis://[user:password@]host[:port][/db], rediss:// for TLS. The parameters username, password and db
// stand for missing parts. The errors of url.Parse are not passed on: they may quote the password.
func parseURL(s, scheme string) (target, error) {
	if scheme != "redis" && scheme != "rediss" {
		return target{}, errors.New("the scheme must be redis:// or, for TLS, rediss://; a unix socket is its path alone")
	}
	u, err := neturl.Parse(s)
	var parameters neturl.Values
	if err == nil {
		parameters, err = neturl.ParseQuery(u.RawQuery)
	}
	if err != nil || u.Fragment != "" || u.Host == "" || u.Port() != "" && !isPort(u.Port()) {
		return target{}, fmt.Errorf("it is not a URL: write %s://user:password@host:port/db, and in a password "+
			"%%40 for @, %%3A for :, %%2F for /, %%23 for #, %%3F for ?, %%25 for %%, %%2C for a comma", scheme)
	}
	for name := range parameters {
		if name != "username" && name != "password" && name != "db" {
			return target{}, errors.New("a URL of Redis has no parameters here but username, password and db: leave out the others")
		}
	}
	host, port := cmp.Or(u.Hostname(), "localhost"), cmp.Or(u.Port(), "6379")
	t := target{network: "tcp", addr: net.JoinHostPort(host, port), tls: scheme == "rediss"}
	t.user = cmp.Or(u.User.Username(), parameters.Get("username"))
	t.password = parameters.Get("password")
	if password, given := u.User.Password(); given {
		t.password = password
	}
	if t.user != "" && t.password == "" {
		return target{}, fmt.Errorf("it has a user and no password: write %s://user:password@host:port, or "+
			"%s://:password@host:port for the default user", scheme, scheme)
	}
	t.name = t.addr
	if db := cmp.Or(strings.Trim(u.Path, "/"), parameters.Get("db")); db != "" {
		if t.db, err = strconv.Atoi(db); err != nil || t.db < 0 {
			return target{}, errors.New("what follows the port must be the number of a database: redis://host:6379/0")
		}
	}
	if t.db != 0 {
		t.name += "/" + strconv.Itoa(t.db)
	}
	return t, nil
}
