// Package browser looks at the page in a real Chromium, as people do, with a real weir behind it. It is a module of its
// own, so that the browser's driver stays out of weir's go.mod. Its tests run without the race detector: what is under
// test are weir, which they build, and scripts in the browser, neither of which it sees.
package browser
