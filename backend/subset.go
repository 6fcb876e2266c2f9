package backend

// Subset is a part of a call's checks, for one store. Add the checks, decide Checks into Out, and call CopyTo with the
// decisions of the whole call. The zero Subset is empty. A Subset is for one goroutine at a time; a reused one
// allocates nothing.
type Subset struct {
	Checks  []Check
	Out     []Decision // Out[i] answers Checks[i]
	indexes []int      // by check, its index in the whole call
}

// Add appends a copy of checks[i], with an empty decision, and returns it. The caller may change it until the next Add.
func (p *Subset) Add(checks []Check, i int) *Check {
	p.Checks = append(p.Checks, checks[i])
	p.Out = append(p.Out, Decision{})
	p.indexes = append(p.indexes, i)
	return &p.Checks[len(p.Checks)-1]
}

// CopyTo copies each decision to the index in out that its check has in the whole call.
func (p *Subset) CopyTo(out []Decision) { p.Each(func(i int, d *Decision) { out[i] = *d }) }

// Each calls do for each check, with its index in the whole call and its decision.
func (p *Subset) Each(do func(i int, d *Decision)) {
	for i, at := range p.indexes {
		do(at, &p.Out[i])
	}
}

// Reset empties the subset and keeps its memory, without references to the old checks and decisions.
func (p *Subset) Reset() {
	clear(p.Checks)
	clear(p.Out)
	p.Checks, p.Out, p.indexes = p.Checks[:0], p.Out[:0], p.indexes[:0]
}
