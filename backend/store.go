package backend

import "context"

// Store decides checks, and shows operators the counters of a key.
type Store interface {
	Counter
	Inspector
}

// Shared is a store on servers, which replicas share.
type Shared interface {
	Store
	Health
	Replicas
	// Await waits until a server can count. Its error is ctx's, or the last probe's if the store gave up.
	Await(ctx context.Context) error
}
