package topology

import (
	"os"
	"slices"
	"time"
)

// fileInterval is how often the file of a ring's nodes is read, which is small.
const fileInterval = time.Second

// follow keeps the ring as the file says. A file that cannot be used is logged once, and changes nothing.
func (r *ring) follow(list string) {
	ticker := time.NewTicker(fileInterval)
	defer ticker.Stop()
	var trouble string
	for {
		select {
		case <-ticker.C:
		case <-r.ctx.Done():
			return
		}
		content, err := os.ReadFile(r.URLFile)
		if err == nil && string(content) == list && trouble == "" {
			continue
		}
		if err == nil {
			err = r.apply(string(content))
		}
		switch {
		case err != nil && err.Error() != trouble:
			trouble = err.Error()
			r.Log.Error("the ring keeps its nodes, as the file of them cannot be used", "file", r.URLFile, "error", err)
		case err == nil && trouble != "":
			r.Log.Info("the file of the ring's nodes can be used again", "file", r.URLFile)
		}
		if err == nil {
			list, trouble = string(content), ""
		}
	}
}

// apply makes the nodes of a list the ring's.
func (r *ring) apply(list string) error {
	targets, err := parseNodes(list)
	if err != nil {
		return err
	}
	before := r.names()
	r.set(targets)
	if after := r.names(); !slices.Equal(before, after) {
		r.Log.Info("the ring has other nodes", "before", before, "now", after)
	}
	return nil
}

// names returns the names of the nodes, in order.
func (r *ring) names() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nodes {
		names = append(names, n.name)
	}
	slices.Sort(names)
	return names
}
