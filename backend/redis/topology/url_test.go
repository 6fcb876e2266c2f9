package topology

import (
	"strings"
	"testing"
)

func TestURLTakesEveryDocumentedForm(t *testing.T) {
	tests := []struct {
		url, socketType string
		want            target
	}{
		{"redis:6379", "", target{name: "redis:6379", network: "tcp", addr: "redis:6379"}},
		{" 10.0.0.1:7000\n", "tcp", target{name: "10.0.0.1:7000", network: "tcp", addr: "10.0.0.1:7000"}},
		{"[::1]:6379", "", target{name: "[::1]:6379", network: "tcp", addr: "[::1]:6379"}},
		{"redis://redis", "", target{name: "redis:6379", network: "tcp", addr: "redis:6379"}},
		{"redis://redis:7000/", "", target{name: "redis:7000", network: "tcp", addr: "redis:7000"}},
		{"redis://[::1]", "", target{name: "[::1]:6379", network: "tcp", addr: "[::1]:6379"}},
		{"rediss://redis:7000", "tcp", target{name: "redis:7000", network: "tcp", addr: "redis:7000", tls: true}},
		{"REDISS://redis", "", target{name: "redis:6379", network: "tcp", addr: "redis:6379", tls: true}},
		{"redis://:word@redis", "",
			target{name: "redis:6379", network: "tcp", addr: "redis:6379", password: "word"}},
		{"redis://ann:p%40%2C%2F%3A%23%25@redis:1/3", "",
			target{name: "redis:1/3", network: "tcp", addr: "redis:1", user: "ann", password: "p@,/:#%", db: 3}},
		{":6379", "", target{name: "localhost:6379", network: "tcp", addr: "localhost:6379"}},
		{"redis://:7000", "", target{name: "localhost:7000", network: "tcp", addr: "localhost:7000"}},
		{"redis://redis?username=ann&password=p%40&db=3", "",
			target{name: "redis:6379/3", network: "tcp", addr: "redis:6379", user: "ann", password: "p@", db: 3}},
		{"redis://bob:word@redis/4?username=ann&password=p&db=3", "",
			target{name: "redis:6379/4", network: "tcp", addr: "redis:6379", user: "bob", password: "word", db: 4}},
		{"/run/redis.sock", "", target{name: "/run/redis.sock", network: "unix", addr: "/run/redis.sock"}},
		{"/run/redis.sock", "unix", target{name: "/run/redis.sock", network: "unix", addr: "/run/redis.sock"}},
		{"run/redis.sock", "unix", target{name: "run/redis.sock", network: "unix", addr: "run/redis.sock"}},
	}
	for _, test := range tests {
		got, err := parseSingle(test.url, test.socketType)
		if err != nil || got != test.want {
			t.Errorf("%q with socket type %q is %+v, %v; want %+v", test.url, test.socketType, got, err, test.want)
		}
	}
}

// secret is in the bad URLs below wherever a password could be.
const secret = "hunter2"

func TestURLErrorsHideThePassword(t *testing.T) {
	single := func(url string) error { _, err := parseSingle(url, ""); return err }
	as := func(socketType string) func(string) error {
		return func(url string) error { _, err := parseSingle(url, socketType); return err }
	}
	sentinel := func(url string) error { _, _, err := parseSentinel(url); return err }
	cluster := func(url string) error { _, err := parseCluster(url); return err }
	nodes := func(url string) error { _, err := parseNodes(url); return err }
	tests := []struct {
		parse func(string) error
		url   string
		want  string
	}{
		{single, "", "it is empty: write host:port"},
		{single, secret, "it has no port: write host:6379"},
		{as("unix"), secret, "it has no port: write host:6379, or /path/to/socket"},
		{single, "redis:" + secret, "it is not an address: write host:port"},
		{single, "redis:0", "it is not an address"},
		{single, "redis:70000", "it is not an address"},
		{single, "::1", "IPv6 as [::1]:6379"},
		{single, "a:1,b:1", "use ring or cluster"},
		{single, "ann:" + secret + "@redis:6379", "credentials need a scheme before them"},
		{single, secret + "@redis", "credentials need a scheme before them"},
		{single, "http://redis:6379", "the scheme must be redis://"},
		{single, "unix:///run/redis.sock", "a unix socket is its path alone"},
		{single, "redis://", "it is not a URL"},
		{single, "redis://ann:" + secret, "it is not a URL"},
		{single, "redis://:" + secret + "/x@redis:6379", "%2F for /"},
		{single, "redis://:" + secret + "#x@redis:6379", "%23 for #"},
		{single, "redis://x#" + secret + "@redis:6379", "%23 for #"},
		{single, "redis://:" + secret + "%zz@redis:6379", "%25 for %"},
		{single, "rediss://ann:" + secret + "@redis:port", "write rediss://user:password@host:port/db"},
		{single, "redis://:" + secret + "@redis:6379?tls=1", "no parameters here but username, password and db"},
		{single, "redis://redis:6379?password=" + secret + "%zz", "%25 for %"},
		{single, "redis://redis:6379?db=zero", "the number of a database"},
		{single, "redis://redis:6379?username=ann", "it has a user and no password"},
		{single, "redis://:" + secret + "@redis:6379/zero", "the number of a database"},
		{single, "redis://" + secret + "@redis:6379", "redis://:password@host:port for the default user"},
		{as("unix"), "", "it is empty"},
		{as("unix"), "redis:6379", "the socket type is unix, but redis:6379 is not the path"},
		{as("unix"), "redis://:" + secret + "@redis:6379", "the socket type is unix, but redis:6379 is not the path"},
		{as("tcp"), "/run/redis.sock", "the socket type is tcp, but /run/redis.sock is the path of a unix socket"},
		{sentinel, "", "name,host:port,host:port"},
		{sentinel, "primary", "name,host:port,host:port"},
		{sentinel, "s1:26379,s2:26379", "item 1: it must be the name"},
		{sentinel, "primary,s1:26379,s2", "item 3: it has no port: write host:6379"},
		{sentinel, "primary,:" + secret + "@s1:26379", "item 2: credentials need a scheme"},
		{sentinel, "primary,s1:1,/run/s2.sock", "item 3: a sentinel or node"},
		{sentinel, "primary,redis://s1", "item 2: it has no port"},
		{sentinel, "primary,redis://s1:1/2", "item 2: a sentinel or node"},
		{sentinel, "primary,rediss://s1", "item 2: a sentinel or node"},
		{cluster, ",", "there is no server in it"},
		{cluster, "a:1,/run/redis.sock", "item 2: a sentinel or node"},
		{cluster, "redis://a/1", "item 1: a sentinel or node"},
		{cluster, "redis://a,rediss://b", "item 2: a sentinel or node"},
		{cluster, "redis://:" + secret + "@a,redis://:x@b", "item 2: all servers of a cluster have the same credentials"},
		{nodes, "redis://:" + secret + ",x@a:1", "item 1: it is not a URL"},
		{nodes, "a:1,b:1,a:1", "items 1 and 3 are both a:1: name each server once"},
		{nodes, "a:1,rediss://:" + secret + "@a:1", "items 1 and 2 are both a:1"},
	}
	for _, test := range tests {
		err := test.parse(test.url)
		if err == nil {
			t.Errorf("%q is taken, want an error with %q", test.url, test.want)
			continue
		}
		if !strings.Contains(err.Error(), test.want) {
			t.Errorf("the error for %q is %q, want it to say %q", test.url, err, test.want)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error for %q quotes the password, which would end in a log: %q", test.url, err)
		}
	}
}

func TestListsTakeCommasLineEndsAndSpaces(t *testing.T) {
	nodes, err := parseNodes("a:1, redis://b\n\n  /run/c.sock,\r\n")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.name)
	}
	if got, want := strings.Join(names, " "), "a:1 b:6379 /run/c.sock"; got != want {
		t.Errorf("the nodes are %s, want %s", got, want)
	}
	primary, sentinels, err := parseSentinel("weir, s1:26379,redis://ann:word@s2:26379, :26380")
	names = nil
	for _, s := range sentinels {
		names = append(names, s.addr)
	}
	if err != nil || primary != "weir" || strings.Join(names, " ") != "s1:26379 s2:26379 localhost:26380" ||
		sentinels[1].user != "ann" || sentinels[1].password != "word" {
		t.Errorf("sentinels are read as %q, %+v, %v", primary, sentinels, err)
	}
	nodes, err = parseCluster("a:1,b:1,a:1,redis://b:1") // as envoyproxy/ratelimit takes it
	if err != nil || len(nodes) != 2 || nodes[0].addr != "a:1" || nodes[1].addr != "b:1" {
		t.Errorf("a:1,b:1,a:1,redis://b:1 is read as %+v, %v; want two servers", nodes, err)
	}
}
