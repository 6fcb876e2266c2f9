package backend

// Health is what is known of the servers of a store. Its methods ask no server, do not wait, and may be called by any
// number of goroutines.
type Health interface {
	// Answers returns nil if a server could count when they were last probed: at the start, and when a check got no
	// answer. Else it returns what is missing.
	Answers() error
	// Servers returns the state of each server by its name.
	Servers() map[string]ServerState
	// Notify has a token sent to c after each change of these, and after each probe. As c is not waited for, it needs
	// room for one.
	Notify(c chan<- struct{})
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
