// Package browser tests the page in a real Chromium, with a real weir behind it. It is a separate module, so that the
// browser's driver stays out of weir's go.mod. Its tests run without the race detector, which would see neither the
// weir that they build nor the scripts in the browser.
package browser
