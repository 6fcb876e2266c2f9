package backend

// Part is those checks of a call that are decided apart from the others: by another store, or at another time. Add the
// checks, have Checks decided into Out, and HandOver the decisions. The zero Part is empty. A Part is for one goroutine
// at a time; one that is reused allocates nothing.
type Part struct {
	Checks []Check
	Out    []Decision // Out[i] answers Checks[i]
	at     []int      // the index in the call of each check
}

// Add appends a copy of checks[i], and room for its decision. The copy that it returns may be changed until the next Add.
func (p *Part) Add(checks []Check, i int) *Check {
	p.Checks = append(p.Checks, checks[i])
	p.Out = append(p.Out, Decision{})
	p.at = append(p.at, i)
	return &p.Checks[len(p.Checks)-1]
}

// HandOver copies each decision to the index in out that its check has in the call.
func (p *Part) HandOver(out []Decision) { p.Each(func(i int, d *Decision) { out[i] = *d }) }

// Each calls do with the decision of each check, and the index of the check in the call.
func (p *Part) Each(do func(i int, d *Decision)) {
	for i, at := range p.at {
		do(at, &p.Out[i])
	}
}

// Reset empties the part and keeps its room, but no reference to what its checks and decisions held.
func (p *Part) Reset() {
	clear(p.Checks)
	clear(p.Out)
	p.Checks, p.Out, p.at = p.Checks[:0], p.Out[:0], p.at[:0]
}
