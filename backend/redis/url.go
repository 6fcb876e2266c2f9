package redis

import (
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
	// name is the address without scheme and credentials. A ring places keys by it, so that neither a new password nor
	// TLS moves a key.
	name           string
	network, addr  string
	user, password string
	db             int
	tls            bool
}

// parseSingle reads host:port, redis://, rediss:// or the path of a unix socket. A socket type, if any, must fit; only
// unix distinguishes a relative path from a host without a port.
func parseSingle(url, socketType string) (target, error) {
	if strings.Contains(url, ",") && !strings.Contains(url, "://") {
		return target{}, errors.New("it names several servers, but the type is single: write one, or use ring or cluster")
	}
	url = strings.TrimSpace(url)
	if socketType == "unix" && url != "" && !strings.Contains(url, ":") {
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

// parseSentinel reads primary,host:port,…
func parseSentinel(url string) (primary string, sentinels []string, err error) {
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
		t, err := parseAddress(item)
		if err != nil {
			return "", nil, fmt.Errorf("item %d: %w", i+2, err)
		}
		sentinels = append(sentinels, t.addr)
	}
	return items[0], sentinels, nil
}

// parseCluster reads the addresses of some servers of a cluster. They are one cluster, so all have the same credentials
// and all or none have TLS.
func parseCluster(url string) ([]target, error) {
	nodes, err := parseNodes(url)
	for i, n := range nodes {
		first := nodes[0]
		switch {
		case n.network == "unix":
			return nil, fmt.Errorf("item %d: a cluster is reached at host:port, not by a unix socket", i+1)
		case n.db != 0:
			return nil, fmt.Errorf("item %d: a cluster has no database but 0: leave out /%d", i+1, n.db)
		case n.tls != first.tls:
			return nil, fmt.Errorf("item %d: all servers of a cluster have TLS or none has: write all as rediss:// or none", i+1)
		case n.user != first.user || n.password != first.password:
			return nil, fmt.Errorf("item %d: all servers of a cluster have the same credentials: repeat them in each item", i+1)
		}
	}
	return nodes, err
}

// parseNodes reads a list of servers, separated by commas or line ends.
func parseNodes(list string) ([]target, error) {
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
		if at := slices.IndexFunc(nodes, func(n target) bool { return n.name == t.name }); at >= 0 {
			return nil, fmt.Errorf("items %d and %d are both %s: name each server once", at+1, i+1, t.name)
		}
		nodes = append(nodes, t)
	}
	return nodes, nil
}

// splitList gives the items of a list without the space around them. Empty items are left out, so a comma or a line end
// may close the list.
func splitList(list string) []string {
	var items []string
	for item := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == '\n' }) {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// parseTarget reads one server. Its errors quote nothing that could be a password.
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
		return target{}, fmt.Errorf("%q has no port: write %s:6379", s, s)
	}
	if err != nil || host == "" || strings.ContainsAny(host, "@/ ") || !isPort(port) {
		return target{}, errors.New("it is not an address: write host:port, with IPv6 as [::1]:6379")
	}
	return target{name: s, network: "tcp", addr: s}, nil
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// parseURL reads redis://[user:password@]host[:port][/db], rediss:// for TLS. url.Parse's own errors are not passed on:
// they quote what it could not read, which may be the password.
func parseURL(s, scheme string) (target, error) {
	if scheme != "redis" && scheme != "rediss" {
		return target{}, errors.New("the scheme must be redis:// or, for TLS, rediss://; a unix socket is its path alone")
	}
	u, err := neturl.Parse(s)
	if err != nil || u.Fragment != "" || u.Hostname() == "" || u.Port() != "" && !isPort(u.Port()) {
		return target{}, fmt.Errorf("it is not a URL: write %s://user:password@host:port/db, and in a password "+
			"%%40 for @, %%3A for :, %%2F for /, %%23 for #, %%3F for ?, %%25 for %%, %%2C for a comma", scheme)
	}
	if u.RawQuery != "" || u.ForceQuery {
		return target{}, errors.New("a URL of Redis takes no parameters here: leave out the question mark and what follows")
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	t := target{network: "tcp", addr: net.JoinHostPort(u.Hostname(), port), tls: scheme == "rediss"}
	t.user = u.User.Username()
	t.password, _ = u.User.Password()
	if t.user != "" && t.password == "" {
		return target{}, fmt.Errorf("it has a user and no password: write %s://user:password@host:port, or "+
			"%s://:password@host:port for the default user", scheme, scheme)
	}
	t.name = t.addr
	if db := strings.Trim(u.Path, "/"); db != "" {
		if t.db, err = strconv.Atoi(db); err != nil || t.db < 0 {
			return target{}, errors.New("what follows the port must be the number of a database: redis://host:6379/0")
		}
	}
	if t.db != 0 {
		t.name += "/" + strconv.Itoa(t.db)
	}
	return t, nil
}
