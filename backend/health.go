package backend

// Health is the last known state of a store's servers. Its methods ask no server, do not block, and may be called by
// any number of goroutines.
type Health interface {
	// ProbeErr returns nil if some server could count at the last probe, else why none could. Probes run at the start,
	// and when a check got no answer.
	ProbeErr() error
	// Servers returns the state of each server by its name.
	Servers() map[string]ServerState
	// Notify makes the store send to c after each change of these states, and after each probe. Sends do not block, so
	// c needs a buffer of 1.
	Notify(c chan<- struct{})
}

// ServerState is the last known state of a server that counts.
type ServerState uint8

const (
	// ServerAway means that the server has not answered yet, does not answer, or answers too late for its callers.
	ServerAway ServerState = iota
	// ServerUp means that it can count.
	ServerUp
	// ServerFailing means that it answers, and cannot count: it takes no writes, or denies a right.
	ServerFailing
	// ServerStates is the number of states.
	ServerStates = int(ServerFailing) + 1
)

// String returns the state's name in metrics.
func (s ServerState) String() string { return [ServerStates]string{"away", "up", "failing"}[s] }

// Replicas is implemented by stores that know how many processes count in them.
type Replicas interface {
	// Replicas returns how many processes were alive at the last update, this one included; 0 before the first update.
	// complete reports whether every process has had the time to announce itself.
	Replicas() (alive int, complete bool)
}
