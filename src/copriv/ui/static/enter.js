// From the address with the token to the page itself; what stands after the # goes along.

location.replace(location.pathname + location.hash);
