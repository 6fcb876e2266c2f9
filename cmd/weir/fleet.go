package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
)

// askEach asks all weirs that --admin names, at the same time, and prints what merge makes of the answers of several: for
// people, view of it. Its error names those that do not answer, after the answers of the others.
func askEach[A any](ctx context.Context, out terminal.Output, f *portFlags, path string, query url.Values,
	merge func([]*A) *A, view func(a *A, weirs int) string) error {
	f.Address = cmp.Or(f.Address, config.AdminAddress())
	ports := f.Each(ctx, net.DefaultResolver.LookupNetIP)
	if len(ports) > 1 && merge != nil {
		query.Set("n", "1000") // the most: what is first of all may be late in each list
	}
	answers, errs := make([]*A, len(ports)), make([]error, len(ports))
	bodies := make([]bytes.Buffer, len(ports)) // as each would be printed alone
	var asking sync.WaitGroup
	for i := range ports {
		asking.Go(func() {
			one := portFlags{Port: ports[i], JSON: f.JSON}
			answers[i], errs[i] = ask(ctx, terminal.Output{Out: &bodies[i]}, &one, http.MethodGet, path, maps.Clone(query),
				func(a *A) string { return view(a, 1) })
		})
	}
	asking.Wait()
	var err error
	answered := slices.DeleteFunc(slices.Clone(answers), func(a *A) bool { return a == nil })
	switch {
	case len(ports) == 1:
		_, err = out.Out.Write(bodies[0].Bytes())
	case merge == nil:
		err = printApart(out, ports, bodies, f.JSON)
	case len(answered) > 0 && f.JSON:
		err = terminal.WriteJSON(out.Out, merge(answered))
	case len(answered) > 0:
		_, err = fmt.Fprint(out.Out, view(merge(answered), len(answered)))
	}
	return errors.Join(append(errs, err)...)
}

// printApart prints each answer below the address it came from, those that are alike once.
func printApart(out terminal.Output, ports []adminport.Port, answers []bytes.Buffer, asJSON bool) error {
	var from [][]string
	var all []string
	for i := range ports {
		text := answers[i].String()
		at := slices.Index(all, text)
		if at < 0 {
			all, from, at = append(all, text), append(from, nil), len(all)
		}
		from[at] = append(from[at], ports[i].Address)
	}
	for i, text := range all {
		var err error
		if text != "" && asJSON {
			err = terminal.WriteJSON(out.Out, map[string]any{"weirs": from[i], "answer": json.RawMessage(text)})
		} else if text != "" {
			_, err = fmt.Fprintf(out.Out, "%s:\n%s", strings.Join(from[i], ", "), text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mergeDenials returns the denials of several weirs, up to n: those of a rule as one, and the recent ones side by side.
func mergeDenials(answers []*admin.DenialsAnswer, n int) *admin.DenialsAnswer {
	type rule struct {
		domain, path string
		shadow       bool
	}
	all, rules := *answers[0], make(map[rule]admin.DenialAnswer)
	var recent []admin.DenialAnswer
	all.More = 0
	for _, a := range answers {
		all.Since, all.Now, all.More = max(all.Since, a.Since), max(all.Now, a.Now), all.More+a.More
		for _, d := range a.Denials {
			key := rule{d.Domain, d.Path, d.Shadow}
			if other, found := rules[key]; found {
				requests, hits := d.DeniedRequests+other.DeniedRequests, d.DeniedHits+other.DeniedHits
				if other.At > d.At {
					d = other
				}
				d.DeniedRequests, d.DeniedHits = requests, hits
			}
			rules[key] = d
		}
		if a.RecentAnswer != nil && all.RecentAnswer != nil {
			recent = append(recent, a.Recent...)
			all.KeptSince = max(all.KeptSince, a.KeptSince)
		}
	}
	newest := func(a, b admin.DenialAnswer) int {
		return cmp.Or(cmp.Compare(b.First, a.First), cmp.Compare(b.At, a.At))
	}
	cut := func(rows []admin.DenialAnswer) []admin.DenialAnswer {
		all.More += max(0, len(rows)-n)
		return rows[:min(n, len(rows))]
	}
	all.Denials = cut(append([]admin.DenialAnswer{}, slices.SortedFunc(maps.Values(rules), newest)...))
	if all.RecentAnswer != nil {
		slices.SortFunc(recent, newest)
		all.Recent = cut(append([]admin.DenialAnswer{}, recent...))
	}
	return &all
}

// mergeTop returns who took the most of several weirs, up to n. What they answer of the history is the same.
func mergeTop(answers []*admin.TopAnswer, n int) *admin.TopAnswer {
	all, missing := *answers[0], uint64(0)
	if all.Missing == nil {
		return &all
	}
	rows := make(map[[2]string]admin.TopRow)
	for _, a := range answers {
		all.From, all.To = min(all.From, a.From), max(all.To, a.To)
		if a.Missing != nil {
			missing += *a.Missing
		}
		if len(a.Top) > 0 && a.Found > len(a.Top) {
			missing += *a.Top[len(a.Top)-1].By(all.By) // of a key that is not listed
		}
		for _, r := range a.Top {
			key := [2]string{r.Path, r.Descriptor}
			if other, found := rows[key]; found {
				for _, of := range []string{"hits", "within", "over", "degraded", "near", "shadow"} {
					*r.By(of) += *other.By(of)
				}
			}
			rows[key] = r
		}
	}
	top := slices.SortedFunc(maps.Values(rows), func(x, y admin.TopRow) int {
		return cmp.Or(cmp.Compare(*y.By(all.By), *x.By(all.By)), cmp.Compare(y.Hits, x.Hits), cmp.Compare(x.Descriptor, y.Descriptor))
	})
	all.Found, all.Missing = len(top), &missing
	all.Top = append([]admin.TopRow{}, top[:min(n, len(top))]...)
	return &all
}
