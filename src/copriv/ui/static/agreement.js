// The agreement (see join.js for the page before it).
import { begin } from "./site.js";

begin(async () => {});
