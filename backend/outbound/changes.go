package outbound

import "sync"

// Changes tells subscribers that something about servers has changed. The zero value has none. Its methods may be called
// by any number of goroutines.
type Changes struct {
	mu          sync.Mutex
	subscribers []chan<- struct{}
}

// Notify is that of [backend.Health].
func (c *Changes) Notify(subscriber chan<- struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers = append(c.subscribers, subscriber)
}

// Broadcast sends each subscriber a token, unless it has one that it has not taken. It does not wait.
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
