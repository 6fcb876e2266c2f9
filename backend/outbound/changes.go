package outbound

import "sync"

// Changes notifies subscribers that something about servers has changed. The zero value has no subscribers. Its methods
// may be called by any number of goroutines.
type Changes struct {
	mu          sync.Mutex
	subscribers []chan<- struct{}
}

// Notify implements [backend.Health].
func (c *Changes) Notify(subscriber chan<- struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers = append(c.subscribers, subscriber)
}

// Broadcast sends to each subscriber whose channel has room. It does not block.
func (c *Changes) Broadcast() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.subscribers {
		select {
		case s <- struct{}{}:
		default:
		}
	}
}
