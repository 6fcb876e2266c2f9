package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/admin"
)

// countersCmd looks at what a weir has counted for one descriptor, and changes it, over its admin port.
type countersCmd struct {
	Get   countersGetCmd   `cmd:"" help:"Show what the limits of a descriptor have counted, bucket by bucket, or each instant of a sliding_log."`
	Reset countersResetCmd `cmd:"" help:"Forget what is counted for a descriptor."`
	Grant countersGrantCmd `cmd:"" help:"Give hits back to a descriptor, the newest first."`
}

// Help is what weir counters --help shows below the first sentence.
func (*countersCmd) Help() string {
	return `Asks the admin port of a running weir; those that share a Redis share their counters. Changes need the token of its
ADMIN_TOKEN_FILE, or that its DEBUG_HOST is a loopback address, and are logged there. Exit code: 0, or 2 for an error.

    weir counters get   --domain shop --descriptor user=ann
    weir counters grant --domain shop --descriptor user=ann --hits 5 --token-file token
    weir counters reset --domain shop --descriptor user=ann --admin 10.0.0.7:6070 --json

--json prints what the port answers: domain, descriptor, path, key, limits [{limit, algorithm, hits, remaining,
reset_seconds, levels [{width, buckets [{start (Unix seconds), hits}]}]}], the finest level and the oldest bucket first.
A sliding_log has one level, 1µs: the instants of its hits, the newest 10,000; "earlier" counts the hits before them.
A token_bucket has no levels; its limit has "burst", and reset_seconds is until the next hit leaks.`
}

// countersTarget is what all three take: whom to ask, about what, and how to show it.
type countersTarget struct {
	Domain     string        `required:"" placeholder:"NAME" help:"The domain that the rules stand in."`
	Descriptor string        `required:"" placeholder:"K=V,K=V" help:"The descriptor, as weir call takes it."`
	Admin      string        `default:"127.0.0.1:6070" help:"HOST:PORT of weir's admin port."`
	TokenFile  string        `placeholder:"FILE" help:"File that holds the token of ADMIN_TOKEN_FILE."`
	Timeout    time.Duration `default:"5s" help:"How long to wait for the answer."`
	JSON       bool          `name:"json" help:"Print the answer as JSON."`

	stdout io.Writer      `kong:"-"` // nil: the process's
	zone   *time.Location `kong:"-"` // of the times shown; nil: local
}

type countersGetCmd struct{ countersTarget }

// Run shows the counters.
func (c *countersGetCmd) Run(ctx context.Context) error {
	return c.ask(ctx, http.MethodGet, "", nil, "")
}

type countersResetCmd struct{ countersTarget }

// Run forgets the counters.
func (c *countersResetCmd) Run(ctx context.Context) error {
	return c.ask(ctx, http.MethodDelete, "", nil, "Reset.")
}

type countersGrantCmd struct {
	countersTarget
	Hits uint64 `default:"1" help:"How many hits to give back."`
}

// Run gives hits back.
func (c *countersGrantCmd) Run(ctx context.Context) error {
	hits := url.Values{"hits": {strconv.FormatUint(c.Hits, 10)}}
	return c.ask(ctx, http.MethodPost, "/grant", hits, "Gave "+count(int(min(c.Hits, 1<<53)), "hit")+" back.")
}

// ask sends one request and shows the answer; done is a sentence to put before it.
func (c *countersTarget) ask(ctx context.Context, method, path string, query url.Values, done string) error {
	body, err := c.fetch(ctx, method, path, query)
	if err != nil {
		return fmt.Errorf("counters: %s", printable(err.Error()))
	}
	out := c.stdout
	if out == nil {
		out = os.Stdout
	}
	if c.JSON {
		_, err = out.Write(body)
		return err
	}
	var answer admin.CountersAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("counters: %s does not answer as weir does: %w", c.Admin, err)
	}
	zone := c.zone
	if zone == nil {
		zone = time.Local
	}
	_, err = io.WriteString(out, (&countersView{answer: answer, done: done, zone: zone, paint: newPaint(out)}).String())
	return err
}

// fetch sends the request and returns the body of a good answer. Its errors are for people.
func (c *countersTarget) fetch(ctx context.Context, method, path string, query url.Values) ([]byte, error) {
	request, err := c.request(method, path, query)
	if err != nil {
		return nil, err
	}
	return askPort(ctx, c.Timeout, request)
}

// request checks the flags and makes the request.
func (c *countersTarget) request(method, path string, query url.Values) (*http.Request, error) {
	if err := checkPort(c.Admin, c.Timeout); err != nil {
		return nil, err
	}
	if _, err := descriptors.ParseDescriptor(c.Descriptor); err != nil {
		return nil, fmt.Errorf("--descriptor: %w", err)
	}
	for _, text := range []string{c.Domain, c.Descriptor} {
		if err := checkUTF8(text); err != nil {
			return nil, err
		}
	}
	if query == nil {
		query = url.Values{}
	}
	query.Set("domain", c.Domain)
	query.Set("descriptor", c.Descriptor)
	where := url.URL{Scheme: "http", Host: c.Admin, Path: "/api/v1/counters" + path, RawQuery: query.Encode()}
	request, err := http.NewRequest(method, where.String(), nil)
	if err != nil {
		return nil, err
	}
	if c.TokenFile != "" {
		token, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	return request, nil
}
