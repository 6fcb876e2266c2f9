package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/weirproxy/weir/cmd/weir/adminport"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/server/admin"
	"github.com/weirproxy/weir/server/rlqs"
)

// rowCount is the flag for the number of rows that a command lists.
type rowCount int

// Validate returns an error for a number that an admin port would refuse.
func (n rowCount) Validate() error {
	if n < 1 || n > 1000 {
		return fmt.Errorf("%d is not from 1 to 1000", n)
	}
	return nil
}

// fleet is the result of asking several weirs: how many were asked, and which did not answer.
type fleet struct {
	asked       int
	unreachable []string // their addresses
}

// answered returns how many answered.
func (f fleet) answered() int { return f.asked - len(f.unreachable) }

// askEach asks all weirs that --admin names, concurrently, and prints the merged answer: as text by view, or as JSON. If
// merge is nil, it prints each answer. Its error names the weirs that did not answer; it prints the others' answers.
func askEach[A any](ctx context.Context, out terminal.Output, f *portFlags, path string, query url.Values,
	merge func([]*A) (*A, error), view func(a *A, fleet fleet) string) error {
	f.Address = cmp.Or(f.Address, config.AdminAddress())
	ports := f.Resolve(ctx, net.DefaultResolver.LookupNetIP)
	if len(ports) > 1 && merge != nil {
		query.Set("n", "1000") // the most that a port allows: the top of all may be far down in each list
	}
	answers, errs := make([]*A, len(ports)), make([]error, len(ports))
	bodies := make([]bytes.Buffer, len(ports)) // the output of asking each weir alone
	var asking sync.WaitGroup
	for i := range ports {
		asking.Go(func() {
			one := portFlags{Port: ports[i], JSON: f.JSON}
			answers[i], errs[i] = ask(ctx, terminal.Output{Out: &bodies[i]}, &one, http.MethodGet, path, maps.Clone(query),
				func(a *A) string { return view(a, fleet{asked: 1}) })
		})
	}
	asking.Wait()
	var err error
	fleet := fleet{asked: len(ports)}
	for i, a := range answers {
		if a == nil {
			fleet.unreachable = append(fleet.unreachable, ports[i].Address)
		}
	}
	answered := slices.DeleteFunc(slices.Clone(answers), func(a *A) bool { return a == nil })
	switch {
	case len(ports) == 1:
		_, err = out.Out.Write(bodies[0].Bytes())
	case merge == nil:
		err = printSeparately(out, ports, bodies, f.JSON)
	case len(answered) > 0:
		var all *A
		if all, err = merge(answered); err != nil {
			break
		}
		if f.JSON {
			err = terminal.WriteJSON(out.Out, all)
		} else {
			_, err = fmt.Fprint(out.Out, view(all, fleet))
		}
	}
	return errors.Join(append(errs, err)...)
}

// printSeparately prints each distinct answer, as text below the addresses that gave it, as JSON on a line.
func printSeparately(out terminal.Output, ports []adminport.Port, answers []bytes.Buffer, asJSON bool) (err error) {
	from := make(map[string][]string)
	for i := range ports {
		text := answers[i].String()
		from[text] = append(from[text], ports[i].Address)
	}
	for i := range ports {
		text := answers[i].String()
		if text == "" || from[text][0] != ports[i].Address {
			continue
		}
		if !asJSON {
			text = strings.Join(from[text], ", ") + ":\n" + text
		}
		_, failed := io.WriteString(out.Out, text)
		err = cmp.Or(err, failed)
	}
	return err
}

// mergeDenials merges the denials of several weirs, up to n. Denials that a weir stored before the others began may be
// in all answers: they are listed once.
func mergeDenials(answers []*admin.DenialsAnswer, n int) (*admin.DenialsAnswer, error) {
	all := answers[0]
	names := make(map[string]bool)
	for _, a := range answers {
		names[a.Name] = true
	}
	var rows []admin.DenialAnswer
	stored := make(map[admin.DenialAnswer]int)
	for _, a := range answers {
		all.Since, all.Now = max(all.Since, a.Since), max(all.Now, a.Now)
		if a != all {
			all.More += a.More
		}
		denials := a.Denials
		if all.RecentAnswer != nil && a.RecentAnswer != nil {
			denials, all.KeptSince = a.Recent, max(all.KeptSince, a.KeptSince)
		}
		for _, d := range denials {
			if d.Weir != "" {
				line := admin.DenialAnswer{First: math.Floor(d.First / 60), Weir: d.Weir, Domain: d.Domain, Path: d.Path, Limit: d.Limit, Name: d.Name,
					Shadow: d.Shadow, DecidedBy: strings.Replace(d.DecidedBy, "deny_cache", "store", 1), Descriptor: d.Descriptor}
				index, known := stored[line]
				if known && rows[index].OverRequests < d.OverRequests { // from a weir that restored it later
					rows[index] = d
				}
				if known || names[d.Weir] {
					continue
				}
				stored[line] = len(rows)
			}
			d.Weir = cmp.Or(d.Weir, a.Name)
			rows = append(rows, d)
		}
	}
	slices.SortStableFunc(rows, func(a, b admin.DenialAnswer) int {
		return cmp.Or(cmp.Compare(b.First, a.First), cmp.Compare(b.At, a.At))
	})
	all.More += max(0, len(rows)-n)
	rows = rows[:min(n, len(rows))]
	if all.Name = ""; all.RecentAnswer != nil {
		all.Recent = rows
	} else {
		all.Denials = rows
	}
	return all, nil
}

// mergeQuota merges the buckets of several weirs, up to n: an Envoy has its stream at one of them.
func mergeQuota(answers []*admin.QuotaAnswer, n int) (*admin.QuotaAnswer, error) {
	all := answers[0]
	for _, a := range answers[1:] {
		all.Streams, all.More, all.Buckets = all.Streams+a.Streams, all.More+a.More, append(all.Buckets, a.Buckets...)
	}
	slices.SortStableFunc(all.Buckets, func(a, b rlqs.Bucket) int { return cmp.Compare(b.Demand, a.Demand) })
	all.More += max(0, len(all.Buckets)-n)
	all.Buckets = all.Buckets[:min(n, len(all.Buckets))]
	return all, nil
}

// mergeTop adds up the rankings of several weirs, up to n keys. Answers from the history are the same everywhere. It
// returns an error for rankings of a later version, which it cannot add up.
func mergeTop(answers []*admin.TopAnswer, n int) (*admin.TopAnswer, error) {
	all, missing, rows := answers[0], uint64(0), make(map[[2]string]admin.TopRow)
	for _, a := range answers {
		switch {
		case a.Missing == nil:
			return a, nil
		case a.By != all.By || new(admin.TopRow).By(a.By) == nil:
			return nil, fmt.Errorf("weirs rank by %q and %q, which cannot be added up: use a weir of their version, or --by hits", all.By, a.By)
		}
		all.From, all.To = min(all.From, a.From), max(all.To, a.To)
		if missing += *a.Missing; a.Found > len(a.Top) && len(a.Top) > 0 { // the most hits of a key that is not listed
			missing += *a.Top[len(a.Top)-1].By(all.By)
		}
		for _, r := range a.Top {
			other := rows[[2]string{r.Path, r.Descriptor}]
			r.Add(&other.RankedHits)
			rows[[2]string{r.Path, r.Descriptor}] = r
		}
	}
	all.Top = append(all.Top[:0], slices.SortedFunc(maps.Values(rows), func(x, y admin.TopRow) int {
		return cmp.Or(cmp.Compare(*y.By(all.By), *x.By(all.By)), cmp.Compare(y.Hits, x.Hits), cmp.Compare(x.Descriptor, y.Descriptor))
	})...)
	all.Found, all.Missing, all.Top = len(all.Top), &missing, all.Top[:min(n, len(all.Top))]
	return all, nil
}
