// Package house keeps the rules of the house: its tests read all Go files of the module and hold them to the rules that
// make the parts replaceable and the code pleasant to read. A rule that stands in the way is discussed, not worked around.
package house
