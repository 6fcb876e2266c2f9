package house_test

import (
	"go/token"
	"maps"
	"slices"
	"strings"
)

// houseImport is where a room imports something first.
type houseImport struct {
	file *houseFile
	pos  token.Pos
}

// houseGraph is what each room's files import, without tests. Rooms are named as they are imported.
type houseGraph map[string]map[string]houseImport

func graphOf(files []*houseFile) houseGraph {
	graph := make(houseGraph)
	for _, f := range files {
		if f.isTest() {
			continue
		}
		imports := graph[houseModule+f.room]
		if imports == nil {
			imports = make(map[string]houseImport)
			graph[houseModule+f.room] = imports
		}
		for _, spec := range f.tree.Imports {
			if _, known := imports[importPath(spec)]; !known {
				imports[importPath(spec)] = houseImport{f, spec.Pos()}
			}
		}
	}
	return graph
}

// checkReach holds each room to what it may reach.
func checkReach(files []*houseFile) (broken []string) {
	graph, checked := graphOf(files), make(map[string]bool)
	for _, f := range files {
		if f.isTest() || checked[f.room] {
			continue
		}
		checked[f.room] = true
		at := slices.IndexFunc(houseRooms, func(r houseRoom) bool { return covers(r.packages, f.room) })
		if at < 0 {
			broken = append(broken, f.broken(f.tree.Package, "package %s is in no room that the table of rooms knows: say there "+
				"what it may import, and why, so that the parts stay apart", f.room))
			continue
		}
		broken = append(broken, graph.check(houseModule+f.room, &houseRooms[at])...)
	}
	return broken
}

// check walks through all that a room reaches, the nearest first, so that each complaint names the shortest way.
func (g houseGraph) check(room string, r *houseRoom) (broken []string) {
	through := map[string][]string{room: nil} // the rooms on the way to each package
	for next := []string{room}; len(next) > 0; next = next[1:] {
		way := through[next[0]]
		if next[0] != room {
			way = append(slices.Clone(way), next[0])
		}
		for _, name := range slices.Sorted(maps.Keys(g[next[0]])) {
			if _, met := through[name]; met || isStandard(name) {
				continue
			}
			through[name] = way
			next = append(next, name)
			if complaint := r.judge(name); complaint != "" {
				first := append(slices.Clone(way), name)[0]
				broken = append(broken, g[room][first].complain(room, name, way, complaint))
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

// complain names the way by which a room reaches what it may not.
func (i houseImport) complain(room, name string, way []string, why string) string {
	does, by := " imports ", ""
	if len(way) > 0 {
		does, by = " reaches ", " by way of "+strings.Join(way, " and ")
	}
	return i.file.broken(i.pos, "%s, %s", strings.ReplaceAll(room+does+name+by, houseModule, ""), why)
}
