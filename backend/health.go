package backend

import "context"

// Health is what a store also has whose counts are on servers. Its methods may be called by any number of goroutines.
type Health interface {
	// Ready returns nil from when a server has shown that it can count, else what is missing; it does not wait. What
	// happens to servers later is told by each check that has no answer: no reason to send requests elsewhere.
	Ready() error
	// Answers returns nil if a server could count when they were last probed: at the start, and when a check got no
	// answer. Else it returns what is missing. It does not wait.
	Answers() error
	// Await waits until the store is ready. Its error is ctx's, or what was missing when the store gave up.
	Await(ctx context.Context) error
	// Servers returns the state of each server by its name. It asks no server, and does not wait.
	Servers() map[string]ServerState
}

// ServerState is what is known of a server that counts.
type ServerState uint8

const (
	// ServerAway means that the server does not answer, or too late for its callers, or has not answered yet.
	ServerAway ServerState = iota
	// ServerUp means that it can count.
	ServerUp
	// ServerFailing means that it answers, and cannot count: it takes no writes, or denies a right.
	ServerFailing
	// ServerStates is how many there are.
	ServerStates = int(ServerFailing) + 1
)

// String returns the state's name in metrics.
func (s ServerState) String() string { return [ServerStates]string{"away", "up", "failing"}[s] }

// Replicas is what a store also has that knows how many processes count in it.
type Replicas interface {
	// Replicas returns how many processes lived when that was last found out, this one among them, and 0 before it was.
	// It reports whether these are all, or others may not have told yet.
	Replicas() (alive int, all bool)
}
