package house_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkReach holds each package to what it may reach. It walks to the nearest first, so that each complaint names the
// shortest way.
func checkReach(files []*houseFile) (broken []string) {
	imports := make(map[string][]string) // of each package, by its import path
	for _, f := range slices.DeleteFunc(slices.Clone(files), tests) {
		of := imports[houseModule+f.room]
		for _, spec := range f.tree.Imports {
			of = append(of, importPath(spec))
		}
		imports[houseModule+f.room] = of
	}
	for _, pkg := range slices.Sorted(maps.Keys(imports)) {
		room := strings.TrimPrefix(pkg, houseModule)
		at := slices.IndexFunc(houseRooms, func(r houseRoom) bool { return covers(r.packages, room) })
		if at < 0 {
			broken = append(broken, fmt.Sprintf("package %s is in no room that the table of rooms knows: say there what it may "+
				"import, and why, so that the parts stay apart", room))
			continue
		}
		reachedFrom := map[string]string{pkg: ""}
		for next := []string{pkg}; len(next) > 0; next = next[1:] {
			for _, name := range imports[next[0]] {
				if _, met := reachedFrom[name]; met || isStandard(name) {
					continue
				}
				reachedFrom[name] = next[0]
				next = append(next, name)
				if complaint := houseRooms[at].judge(name); complaint != "" {
					way := name
					for by := reachedFrom[name]; by != ""; by = reachedFrom[by] {
						way = by + " imports " + way
					}
					broken = append(broken, strings.ReplaceAll(way, houseModule, "")+", "+complaint)
				}
			}
		}
	}
	return broken
}

// judge returns why a room may not reach a package, "" if it may.
func (r *houseRoom) judge(name string) string {
	own, isOwn := strings.CutPrefix(name, houseModule)
	switch {
	case isOwn && !coversAny(r.weir, own):
		return "but of weir's packages it may reach only " + enumerate(r.weir) + ": " + r.why
	case !isOwn && !coversAny(r.libraries, name):
		return "but of libraries it may reach only the standard one and " + enumerate(r.libraries) + ": " + r.why
	}
	return ""
}
